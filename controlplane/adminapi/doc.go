// Package adminapi serves two requests by plain HTTP, kept for clients that
// know nothing of GraphQL. They are the same services, with the same tokens and
// rules, as dlqObservations and verifyEventSubscription in the GraphQL API.
//
//	GET /admin/dlq?limit=&after=&topic=&source=&tenant=&writer=&error_class=&observed_after=&observed_before=&body=1
//
// answers {"observations": […], "next": "dlq_…", "has_more": true}, the newest
// first; next is what to give as after to go on, null at the end. A page with
// a filter that few pass can be short or empty while has_more is true.
//
//	POST /v1/subscriptions/sub_…/verify
//
// sends the challenge and answers with what came of it, with status 200 whether
// the destination passed or not:
// {"id": "sub_…", "verification_state": "ACTIVE", "enabled": true, "probe": {…}}.
//
// What cannot be done answers {"error": {"code": …, "message": …}}.
package adminapi
