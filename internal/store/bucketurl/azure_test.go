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

	"github.com/thanos-io/objstore"
)

// fakeAzure serves one container's list and one blob, to requests signed by a shared key. It refuses to create
// containers. A lister, if it is not nil, serves the list.
func fakeAzure(t *testing.T, l *cloudLister) (url string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			t.Errorf("%s %s: only reads are expected", r.Method, r.URL)
			w.WriteHeader(http.StatusForbidden)
		case !strings.HasPrefix(r.Header.Get("Authorization"), "SharedKey metrics:"):
			w.WriteHeader(http.StatusForbidden)
		case r.URL.Path == "/sign-in":
			fmt.Fprint(w, signIn)
		case r.URL.Path == "/metrics/blocks" && r.URL.Query().Get("comp") == "list" && l != nil:
			l.serve(w, r.URL.Query().Get("prefix"), r.URL.Query().Get("marker"))
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

// azureConfig writes a config_file with an account of the fake provider.
func azureConfig(t *testing.T, server string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "bucket.yaml")
	text := "type: AZURE\nconfig:\n  storage_account: metrics\n  storage_connection_string: DefaultEndpointsProtocol=http;AccountName=metrics;AccountKey=aHVudGVyMg==;BlobEndpoint=" + server + "/metrics\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestAzure lists and reads a container with the credentials of config_file, and reports a missing container,
// which it does not create.
func TestAzure(t *testing.T) {
	file := azureConfig(t, fakeAzure(t, nil))
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

// TestAzureLies has wrong responses to list requests: see testCloudLies.
func TestAzureLies(t *testing.T) {
	l := &cloudLister{kind: "application/xml", page: func(prefix, token, next string, names []string) string {
		var blobs strings.Builder
		for _, name := range names {
			fmt.Fprintf(&blobs, "<Blob><Name>%s</Name><Properties></Properties></Blob>", name)
		}
		return fmt.Sprintf(`<?xml version="1.0"?><EnumerationResults ServiceEndpoint="https://metrics.blob.core.windows.net/" ContainerName="blocks"><Prefix>%s</Prefix><Marker>%s</Marker><Delimiter>/</Delimiter><Blobs>%s</Blobs><NextMarker>%s</NextMarker></EnumerationResults>`, prefix, token, blobs.String(), next)
	}}
	file := azureConfig(t, fakeAzure(t, l))
	open := func() objstore.Bucket { return openCloud(t, "azblob://blocks/deep?config_file="+file) }
	testCloudLies(t, l, open, []cloudLie{
		{name: "of another container", change: replaced(`"blocks"`, `"other"`)},
		{name: "of another prefix", change: replaced("<Prefix>deep/", "<Prefix>else/")},
		{name: "of another page", change: replaced("<Marker>", "<Marker>x")},
		{name: "without Blobs", change: func(p string) string { return strings.NewReplacer("<Blobs>", "", "</Blobs>", "").Replace(p) }},
		{name: "without NextMarker", change: func(p string) string { return strings.NewReplacer("<NextMarker>", "", "</NextMarker>", "").Replace(p) }},
		{name: "another root", change: func(p string) string { return strings.ReplaceAll(p, "EnumerationResults", "Results") }},
		{name: "a byte order mark", change: func(p string) string { return "\ufeff" + p }, complete: true},
	})
}
