//go:build gcs

package bucketurl

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/thanos-io/objstore"
	"go.yaml.in/yaml/v3"
)

// fakeGCS serves tokens, one bucket's list and one object. A lister, if it is not nil, serves the list.
func fakeGCS(t *testing.T, l *cloudLister) (url string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path == "/token":
			fmt.Fprint(w, `{"access_token":"a-token","token_type":"Bearer","expires_in":3600}`)
		case r.Header.Get("Authorization") != "Bearer a-token":
			w.WriteHeader(http.StatusUnauthorized)
		case strings.HasSuffix(r.URL.Path, "/b/bkt/o") && l != nil:
			l.serve(w, r.URL.Query().Get("prefix"), r.URL.Query().Get("pageToken"))
		case r.URL.Path == "/sign-in":
			fmt.Fprint(w, signIn)
		case strings.HasSuffix(r.URL.Path, "/b/bkt/o"):
			fmt.Fprintf(w, `{"kind":"storage#objects","items":[{"bucket":"bkt","name":"%sname"}]}`, r.URL.Query().Get("prefix"))
		case strings.HasSuffix(r.URL.Path, "/bkt/deep/name"):
			fmt.Fprint(w, "text")
		default:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"error":{"code":404,"message":"The specified bucket does not exist."}}`)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// gcsConfig writes a config_file with an account of the fake provider.
func gcsConfig(t *testing.T, server string) (file string) {
	t.Helper()
	t.Setenv("STORAGE_EMULATOR_HOST", server)
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	account, err := json.Marshal(map[string]string{
		"type": "service_account", "client_email": "a@b", "private_key_id": "1", "token_uri": server + "/token",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})),
	})
	if err != nil {
		t.Fatal(err)
	}
	text, err := yaml.Marshal(map[string]any{"type": "GCS", "config": map[string]any{"service_account": string(account)}})
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "bucket.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestGCS lists and reads a bucket with the credentials of config_file, and reports a missing bucket.
func TestGCS(t *testing.T) {
	file := gcsConfig(t, fakeGCS(t, nil))
	for bucket, missing := range map[string]bool{"bkt": false, "other": true} {
		u, err := Parse("gs://" + bucket + "/deep?config_file=" + file)
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
				t.Errorf("list a bucket that does not exist: %v", err)
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
	for _, url := range []string{"gs://bkt?service_account=hunter2", "gs://bkt?config_file=/nowhere"} {
		if _, err := Parse(url); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// TestGCSLies has wrong responses to list requests: see testCloudLies.
func TestGCSLies(t *testing.T) {
	l := &cloudLister{kind: "application/json", page: func(_, _, next string, names []string) string {
		type item struct {
			Bucket string `json:"bucket"`
			Name   string `json:"name"`
		}
		var items []item
		for _, name := range names {
			items = append(items, item{"bkt", name})
		}
		text, err := json.Marshal(struct {
			Kind  string `json:"kind"`
			Next  string `json:"nextPageToken,omitempty"`
			Items []item `json:"items"`
		}{"storage#objects", next, items})
		if err != nil {
			panic(err)
		}
		return string(text)
	}}
	file := gcsConfig(t, fakeGCS(t, l))
	open := func() objstore.Bucket { return openCloud(t, "gs://bkt/deep?config_file="+file) }
	testCloudLies(t, l, open, []cloudLie{
		{name: "of another bucket", change: replaced(`"bkt"`, `"other"`)},
		{name: "without the bucket", change: replaced(`"bucket":"bkt",`, ``)},
		{name: "without its kind", change: replaced(`"kind":"storage#objects",`, ``)},
		{name: "of another kind", change: replaced("storage#objects", "storage#object")},
		{name: "members of other types", change: replaced(`"items":[`, `"items":{"x":`)},
		{name: "unknown members", change: replaced("{", `{"etag":"x",`), complete: true},
	})
}
