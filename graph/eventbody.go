package graph

import (
	"encoding/base64"
	"unicode/utf8"

	"github.com/streaming-hub/streaming-hub/graph/model"
	"github.com/streaming-hub/streaming-hub/hub/wire"
)

// toBody shows bytes in every form that they have.
func toBody(raw []byte) *model.EventBody {
	b := &model.EventBody{Base64: base64.StdEncoding.EncodeToString(raw)}
	if utf8.Valid(raw) {
		text := string(raw)
		b.Text = &text
	}
	if wire.IsJSON(raw) {
		b.JSON = raw
	}
	return b
}
