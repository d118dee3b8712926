package frontend

import (
	"fmt"
	"net/http"
)

// warningHeaders are the headers in which a downstream reports that its response is incomplete: that of Tare's remote read
// and of other frontends, and that of RFC 7234, which proxies add.
var warningHeaders = [...]string{warningsHeader, "Warning"}

const warningsHeader = "X-Query-Warnings"

// maxWarnings bounds the warnings of a response, and maxWarningBytes each of them.
const (
	maxWarnings     = 32
	maxWarningBytes = 300
)

// addWarnings adds the warnings in the headers of responses to the client's, with the names of the shards.
func addWarnings(h http.Header, responses []*http.Response) {
	n := 0
	for _, r := range responses {
		for _, name := range warningHeaders {
			for _, text := range r.Header.Values(name) {
				if n++; n <= maxWarnings {
					h.Add(warningsHeader, trailerText(fmt.Sprintf("%s: %.*s", partName(r), maxWarningBytes, text)))
				}
			}
		}
	}
	if n > maxWarnings {
		h.Add(warningsHeader, fmt.Sprintf("%d more warnings", n-maxWarnings))
	}
}

// partName returns the name of the part that a response is of.
func partName(r *http.Response) string {
	if b, ok := r.Body.(*partBody); ok {
		return "shard " + b.part.name
	}
	return "a shard"
}
