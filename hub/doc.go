// Package hub holds the words of Streaming Hub: event, event subscription,
// destination, delivery, attempt. Its subpackages hold the rules, each a pure
// function from values to a value:
//
//	hub/wire     Judge    is this Kafka record an event of ours?
//	hub/match    Explain  which subscriptions want the event?
//	hub/retry    Next     when is the delivery tried again?
//	hub/breaker  Admit    may an attempt be made while the destination fails?
//	hub/health   Span     has it failed for long enough to be switched off?
//	hub/signing  Sign     what proves to the receiver that we sent it?
//	hub/secret   Seal     how does a signing secret rest in the database?
//	hub/address  Allowed  may a delivery connect there?
//
// Nothing below this directory reads a clock, draws a random number by
// itself or does I/O; time and chance are arguments. It knows the standard
// library and golang.org/x/net/idna only.
package hub
