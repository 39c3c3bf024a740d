// Package conformance measures answers against the DNS software that others trust.
//
// Generated zones are served by quorate, NSD and Knot, and every answer is compared.
// Real nodes stand below a signed root and parent of our own while unbound and BIND
// resolve through them, and delv, dnsviz and zonemaster judge them. What may differ
// is listed, each with its reason, in docs/conformance.md: `make conformance`.
package conformance
