package graph

import (
	"context"
	"net"
)

// liveBuffer is how much of a live feed the network takes from a reader's
// connection before it holds up the writer, in bytes. The system's own choice
// grows to megabytes: a reader that does not read would be served thousands of
// items, and told of its gap long after it fell behind.
const liveBuffer = 64 << 10

type connectionKey struct{}

// ConnContext lets the server's requests know their connection; it is for
// http.Server.ConnContext.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, c)
}

// boundSending keeps the connection of a live feed to liveBuffer.
func boundSending(ctx context.Context) {
	if c, ok := ctx.Value(connectionKey{}).(*net.TCPConn); ok {
		_ = c.SetWriteBuffer(liveBuffer) // else the system's own size stays
	}
}
