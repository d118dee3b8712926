//go:build !gcs && !azure

package bucketurl

import (
	"strings"
	"testing"
)

// TestNotBuilt parses URLs of providers that the program was built without.
func TestNotBuilt(t *testing.T) {
	for url, want := range map[string]string{
		"gs://bkt/prefix":               "go build -tags gcs ./cmd/tare",
		"azblob://container?account=me": "go build -tags azure ./cmd/tare",
	} {
		if _, err := Parse(url); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", url, err, want)
		}
	}
}
