// Package testpromql generates PromQL expressions, selectors and API requests for tests that compare two
// servers over the same series. The same state of a Generator's source gives the same requests.
package testpromql
