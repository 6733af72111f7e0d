// Package signing proves to a receiver that the hub sent a request and that
// nobody changed it.
//
// A request carries two headers over the same body, each with one signature
// per valid secret, the newest first, so that a receiver may hold either
// secret while a rotation overlaps:
//
//	webhook-signature   v1,<base64 HMAC-SHA256 of "id.timestamp.body">
//	X-Lerian-Signature  v1,sha256=<hex HMAC-SHA256 of "v1:timestamp.body">
//
// The first is Standard Webhooks. The timestamp is that of the attempt in Unix
// seconds, never that of the first one: receivers refuse old requests.
package signing
