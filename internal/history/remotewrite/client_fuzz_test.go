package remotewrite

import (
	"net/http"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/taredb/tare/internal/alloctest"
)

// FuzzReceiver parses arbitrary responses of a receiver: numbers and waits are within their bounds, and texts are valid.
func FuzzReceiver(f *testing.F) {
	f.Add(200, []byte("ok"), "5", "0", "7")
	f.Add(429, []byte("\xff slow down"), "-1", "99999999999999999999", "Wed, 21 Oct 2099 07:28:00 GMT")
	f.Fuzz(func(t *testing.T, status int, text []byte, samples, histograms, after string) {
		defer alloctest.Bounded(t, 4<<20)()
		h := http.Header{}
		h.Set(headerSamples, samples)
		h.Set(headerHistograms, histograms)
		h.Set("Retry-After", after)
		r := parseResponse(&http.Response{StatusCode: status, Header: h}, text[:min(len(text), maxResponse)])
		if r.samples < 0 || r.histograms < 0 || r.retryAfter < 0 || r.retryAfter > 5*time.Minute || !utf8.ValidString(r.text) || r.status != status {
			t.Errorf("%+v", r)
		}
	})
}
