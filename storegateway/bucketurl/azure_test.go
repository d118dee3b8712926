//go:build azure

package bucketurl

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fakeAzure serves one container's list and one blob, to requests signed by a shared key. It refuses to create
// containers.
func fakeAzure(t *testing.T) (url string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			t.Errorf("%s %s: only reads are expected", r.Method, r.URL)
			w.WriteHeader(http.StatusForbidden)
		case !strings.HasPrefix(r.Header.Get("Authorization"), "SharedKey metrics:"):
			w.WriteHeader(http.StatusForbidden)
		case r.URL.Path == "/metrics/blocks" && r.URL.Query().Get("comp") == "list":
			w.Header().Set("Content-Type", "application/xml")
			fmt.Fprintf(w, `<?xml version="1.0"?><EnumerationResults ServiceEndpoint="https://metrics.blob.core.windows.net/" ContainerName="blocks"><Prefix>%[1]s</Prefix><Delimiter>/</Delimiter><Blobs><Blob><Name>%[1]sname</Name><Properties></Properties></Blob></Blobs><NextMarker/></EnumerationResults>`, r.URL.Query().Get("prefix"))
		case r.URL.Path == "/metrics/blocks/deep/name":
			w.Header().Set("Content-Length", "4")
			fmt.Fprint(w, "text")
		default:
			w.Header().Set("X-Ms-Error-Code", "ContainerNotFound")
			w.Header().Set("Content-Type", "application/xml")
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `<?xml version="1.0"?><Error><Code>ContainerNotFound</Code><Message>no</Message></Error>`)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// TestAzure lists and reads a container with the credentials of config_file, and reports a missing container,
// which it does not create.
func TestAzure(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bucket.yaml")
	text := "type: AZURE\nconfig:\n  storage_account: metrics\n  storage_connection_string: DefaultEndpointsProtocol=http;AccountName=metrics;AccountKey=aHVudGVyMg==;BlobEndpoint=" + fakeAzure(t) + "/metrics\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for container, missing := range map[string]bool{"blocks": false, "other": true} {
		u, err := Parse("azblob://" + container + "/deep?config_file=" + file)
		if err != nil {
			t.Fatal(err)
		}
		b, err := u.Open()
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		err = b.Iter(t.Context(), "", func(name string) error { names = append(names, name); return nil })
		if missing {
			if !Missing(err) {
				t.Errorf("list a container that does not exist: %v", err)
			}
			continue
		}
		if err != nil || len(names) != 1 || names[0] != "name" {
			t.Fatalf("list: %q, %v", names, err)
		}
		r, err := b.Get(t.Context(), "name")
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if r.Close(); string(text) != "text" || err != nil {
			t.Errorf("read: %q, %v", text, err)
		}
	}
	for _, url := range []string{"azblob://c", "azblob://c?account=a.b", "azblob://c?account_key=hunter2", "azblob://c?account=a&endpoint=hunter2@h"} {
		if _, err := Parse(url); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", url, err)
		}
	}
}
