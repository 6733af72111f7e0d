package graph

import "github.com/streaming-hub/streaming-hub/controlplane"

// ActionOf is the right that a root field needs.
func ActionOf(root, name string) controlplane.Action { return fieldActions[root+"."+name] }
