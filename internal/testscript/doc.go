// Package testscript runs MySQL servers that follow a script, for responses and failures that a real server
// cannot produce, and connects clients to them, directly or through a gateway.
package testscript
