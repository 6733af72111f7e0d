// Package graph is the GraphQL API: it translates between schema.graphql and
// the use cases of package controlplane and keeps no rule of its own.
//
//	server.go    the handler, put together on one screen
//	request.go   what a request has to be before GraphQL sees it: size, JSON, origin, token
//	socket.go    WebSocket connections, protocol.go their rules; stream.go server-sent events
//	limits.go    depth, aliases, complexity, time
//	access.go    the right that each root field needs, accesstypes.go that of each type
//	idempotency.go  mutations that are repeated under their caller's key
//	errors.go    what a caller is told, and what only the log is
//	ids.go       global ids; page.go cursors of lists; loader.go batched look-ups
//
// and one file per type with its resolvers. generated/ and model/ are made by
// gqlgen from schema.graphql.
package graph
