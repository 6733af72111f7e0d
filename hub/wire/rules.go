package wire

import (
	"regexp"
	"strings"

	"github.com/streaming-hub/streaming-hub/hub"
)

// Rules are the settings of the judgement. Start from DefaultRules; the zero
// value accepts no record that has a body.
type Rules struct {
	// TopicPrefix stands before the source in a topic's name.
	TopicPrefix string
	// TypePrefix stands before the source in an event's type.
	TypePrefix string
	// MaxBodyBytes bounds the record's value.
	MaxBodyBytes int
	// MaxHeaderBytes bounds the names, as written, and the values of all
	// ce- and ce_ headers together, copies included.
	MaxHeaderBytes int
	// SingleTenant, when set, is the tenant of events that name none. An
	// event that does name a tenant keeps it.
	SingleTenant hub.TenantID
}

// The defaults of DefaultRules.
const (
	DefaultTopicPrefix    = "lerian.streaming"
	DefaultTypePrefix     = "studio.lerian"
	DefaultHeaderPrefix   = "X-Lerian-"
	DefaultMaxBodyBytes   = 1 << 20
	DefaultMaxHeaderBytes = 16 << 10
)

// DefaultRules are those of a multi-tenant hub.
func DefaultRules() Rules {
	return Rules{
		TopicPrefix:    DefaultTopicPrefix,
		TypePrefix:     DefaultTypePrefix,
		MaxBodyBytes:   DefaultMaxBodyBytes,
		MaxHeaderBytes: DefaultMaxHeaderBytes,
	}
}

// FollowTopics is the regular expression of the topics that hold facts:
// the prefix and one segment without a dot. Command topics, dead-letter topics
// and longer names fall outside by that grammar.
func FollowTopics(prefix string) string {
	return "^" + regexp.QuoteMeta(prefix) + `\.[a-z0-9][a-z0-9_-]*$`
}

// FollowDeadLetterTopics is the regular expression of the topics to which
// producers and consumers write what they could not handle.
func FollowDeadLetterTopics(prefix string) string {
	return "^" + regexp.QuoteMeta(prefix) + `\.[a-z0-9][a-z0-9_-]*\.dlq$`
}

// SourceOfTopic is the source whose facts a topic holds; false for a topic
// outside FollowTopics(prefix).
func SourceOfTopic(prefix, topic string) (string, bool) {
	if len(topic) <= len(prefix) || !strings.HasPrefix(topic, prefix) || topic[len(prefix)] != '.' {
		return "", false
	}
	source := topic[len(prefix)+1:]
	if !IsSource(source) {
		return "", false
	}
	return source, true
}
