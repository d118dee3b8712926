// Package httpclient is the client of Tare's HTTP APIs: one address, one account, and errors that report what a
// refused request requires. It backs tare top, tare ready and tare copy --gateway.
package httpclient
