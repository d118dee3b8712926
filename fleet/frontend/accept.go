package frontend

import (
	"net/http"
	"strings"

	"github.com/taredb/tare/internal/accept"
)

const jsonType = "application/json"

// acceptsJSON reports whether a request accepts JSON. Without an Accept header it accepts all types.
func acceptsJSON(h http.Header) bool {
	ranges := accept.Parse(h.Values("Accept"))
	return len(ranges) == 0 || typeWeight(ranges, jsonType) > 0
}

// typeWeight returns the weight of the most specific range that contains the type.
func typeWeight(ranges []accept.Range, mediaType string) int {
	major, _, _ := strings.Cut(mediaType, "/")
	q, specific := 0, 0
	for _, r := range ranges {
		s := 0
		switch r.Name {
		case mediaType:
			s = 3
		case major + "/*":
			s = 2
		case "*/*":
			s = 1
		}
		if s > specific {
			q, specific = r.Q, s
		}
	}
	return q
}
