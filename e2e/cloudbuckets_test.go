//go:build e2e

package e2e

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// A cloudStore is the objects of a bucket in memory.
type cloudStore struct {
	*httptest.Server
	mu      sync.Mutex
	objects map[string][]byte // under mu, as all below
	blocks  map[string][]byte // of uploads to Azure that are not committed
	reads   int               // of parts of objects
	strange []string          // requests that the fake does not know
}

func newCloudStore(t *testing.T, serve func(s *cloudStore, w http.ResponseWriter, r *http.Request)) *cloudStore {
	t.Helper()
	s := &cloudStore{objects: make(map[string][]byte), blocks: make(map[string][]byte)}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		serve(s, w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// list returns the names below a prefix, and with a delimiter the prefixes of those that contain it.
func (s *cloudStore) list(prefix, delimiter string) (names, prefixes []string) {
	for name := range s.objects {
		rest, ok := strings.CutPrefix(name, prefix)
		if before, _, deeper := strings.Cut(rest, "/"); ok && deeper && delimiter != "" {
			prefixes = append(prefixes, prefix+before+"/")
		} else if ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	slices.Sort(prefixes)
	return names, slices.Compact(prefixes)
}

// read sends an object or a part of it.
func (s *cloudStore) read(w http.ResponseWriter, r *http.Request, name string) bool {
	data, ok := s.objects[name]
	if ok {
		if part := r.Header.Get("X-Ms-Range"); part != "" {
			r.Header.Set("Range", part)
		}
		if r.Header.Get("Range") != "" {
			s.reads++
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		http.ServeContent(w, r, "", time.Unix(1_700_000_000, 0), bytes.NewReader(data))
	}
	return ok
}

// unknown refuses a request that the fake does not know.
func (s *cloudStore) unknown(w http.ResponseWriter, r *http.Request) {
	s.strange = append(s.strange, r.Method+" "+r.URL.String())
	w.WriteHeader(http.StatusNotImplemented)
}

// serveGCS serves the part of Google's JSON and XML APIs that objstore uses, for the bucket bkt.
func serveGCS(s *cloudStore, w http.ResponseWriter, r *http.Request) {
	object := func(name string) map[string]any {
		return map[string]any{
			"kind": "storage#object", "bucket": "bkt", "name": name, "generation": "1", "size": strconv.Itoa(len(s.objects[name])), "updated": "2026-01-31T00:00:00Z",
		}
	}
	missing := func() {
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"error":{"code":404,"message":"No such object"}}`)
	}
	const objects = "/b/bkt/o"
	_, name, named := strings.Cut(r.URL.Path, objects+"/")
	w.Header().Set("Content-Type", "application/json")
	q := r.URL.Query()
	switch {
	case r.URL.Path == "/token":
		fmt.Fprint(w, `{"access_token":"a-token","token_type":"Bearer","expires_in":3600}`)
	case r.Header.Get("Authorization") != "Bearer a-token":
		w.WriteHeader(http.StatusUnauthorized)
	case r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, "/upload/") && q.Get("uploadType") == "multipart":
		_, params, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
		parts := multipart.NewReader(r.Body, params["boundary"])
		head, err := parts.NextPart()
		var meta struct{ Name string }
		if err == nil {
			err = json.NewDecoder(head).Decode(&meta)
		}
		var data []byte
		if err == nil {
			var media *multipart.Part
			if media, err = parts.NextPart(); err == nil {
				data, err = io.ReadAll(media)
			}
		}
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		s.objects[meta.Name] = data
		_ = json.NewEncoder(w).Encode(object(meta.Name))
	case r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, objects):
		names, prefixes := s.list(q.Get("prefix"), q.Get("delimiter"))
		items := make([]any, 0, len(names))
		for _, n := range names {
			items = append(items, object(n))
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": "storage#objects", "items": items, "prefixes": prefixes})
	case named && r.Method == http.MethodGet && q.Get("alt") != "media":
		if _, ok := s.objects[name]; !ok {
			missing()
			return
		}
		_ = json.NewEncoder(w).Encode(object(name))
	case named && r.Method == http.MethodDelete:
		delete(s.objects, name)
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, "/bkt/"):
		if !s.read(w, r, strings.TrimPrefix(r.URL.Path, "/bkt/")) {
			missing()
		}
	default:
		s.unknown(w, r)
	}
}

// serveAzure serves the part of Azure's API for blobs that objstore uses, for the container blocks.
func serveAzure(s *cloudStore, w http.ResponseWriter, r *http.Request) {
	const container = "/metrics/blocks"
	name, named := strings.CutPrefix(r.URL.Path, container+"/")
	q := r.URL.Query()
	w.Header().Set("Content-Type", "application/xml")
	switch {
	case !strings.HasPrefix(r.Header.Get("Authorization"), "SharedKey metrics:"):
		w.WriteHeader(http.StatusForbidden)
	case r.Method == http.MethodGet && r.URL.Path == container && q.Get("comp") == "list":
		names, prefixes := s.list(q.Get("prefix"), q.Get("delimiter"))
		fmt.Fprintf(w, `<?xml version="1.0"?><EnumerationResults ServiceEndpoint="%s/metrics/" ContainerName="blocks"><Prefix>%s</Prefix><Blobs>`, s.URL, q.Get("prefix"))
		for _, p := range prefixes {
			fmt.Fprintf(w, "<BlobPrefix><Name>%s</Name></BlobPrefix>", p)
		}
		for _, n := range names {
			fmt.Fprintf(w, "<Blob><Name>%s</Name><Properties><Content-Length>%d</Content-Length><Last-Modified>Sat, 31 Jan 2026 00:00:00 GMT</Last-Modified></Properties></Blob>", n, len(s.objects[n]))
		}
		fmt.Fprint(w, "</Blobs><NextMarker/></EnumerationResults>")
	case named && (r.Method == http.MethodGet || r.Method == http.MethodHead) && q.Get("comp") == "":
		if !s.read(w, r, name) {
			w.Header().Set("X-Ms-Error-Code", "BlobNotFound")
			w.WriteHeader(http.StatusNotFound)
		}
	case named && r.Method == http.MethodPut:
		data, err := io.ReadAll(r.Body)
		var list struct{ Latest, Uncommitted []string }
		switch {
		case err != nil:
		case q.Get("comp") == "":
			s.objects[name] = data
		case q.Get("comp") == "block":
			s.blocks[name+" "+q.Get("blockid")] = data
		case q.Get("comp") == "blocklist":
			if err = xml.Unmarshal(data, &list); err == nil {
				whole := []byte{}
				for _, id := range slices.Concat(list.Latest, list.Uncommitted) {
					whole = append(whole, s.blocks[name+" "+id]...)
				}
				s.objects[name] = whole
			}
		default:
			s.unknown(w, r)
			return
		}
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusCreated)
	case named && r.Method == http.MethodDelete:
		delete(s.objects, name)
		w.WriteHeader(http.StatusAccepted)
	default:
		s.unknown(w, r)
	}
}

// gcsConfig writes the configuration file of a bucket with an account of the server.
func gcsConfig(t *testing.T, server string) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	must(t, err)
	account, err := json.Marshal(map[string]string{
		"type": "service_account", "client_email": "a@b", "private_key_id": "1", "token_uri": server + "/token",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})),
	})
	must(t, err)
	text, err := yaml.Marshal(map[string]any{"type": "GCS", "config": map[string]any{"service_account": string(account)}})
	must(t, err)
	file := filepath.Join(t.TempDir(), "bucket.yaml")
	must(t, os.WriteFile(file, text, 0o600))
	return file
}

// TestCloudBuckets builds tare with the tags gcs and azure. A gateway ships its history to a fake of each cloud's API,
// and a store serves it from there: it has the counted values.
func TestCloudBuckets(t *testing.T) {
	program := filepath.Join(t.TempDir(), "tare")
	build := exec.Command("go", "build", "-C", repository, "-trimpath", "-tags", "gcs,azure", "-o", program, "./cmd/tare")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build tare: %v\n%s", err, out)
	}
	t.Run("gcs", func(t *testing.T) {
		s := newCloudStore(t, serveGCS)
		t.Setenv("STORAGE_EMULATOR_HOST", s.URL)
		checkCloudBucket(t, program, s, "gs://bkt/deep?config_file="+gcsConfig(t, s.URL))
	})
	t.Run("azure", func(t *testing.T) {
		s := newCloudStore(t, serveAzure)
		file := filepath.Join(t.TempDir(), "bucket.yaml")
		text := "type: AZURE\nconfig:\n  storage_account: metrics\n  storage_connection_string: DefaultEndpointsProtocol=http;AccountName=metrics;AccountKey=aHVudGVyMg==;BlobEndpoint=" + s.URL + "/metrics\n"
		must(t, os.WriteFile(file, []byte(text), 0o600))
		checkCloudBucket(t, program, s, "azblob://blocks/deep?config_file="+file)
	})
}

func checkCloudBucket(t *testing.T, program string, s *cloudStore, bucket string) {
	t.Helper()
	data := t.TempDir()
	p := writePast(t, data)
	local := blocksIn(t, filepath.Join(data, "history", "series"))
	g := startOf(t, program, []string{
		"serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--backend", "mysql://" + mariadb.Addr, "--diag-format", "json",
		"--data-dir", data, "--bucket", bucket, "--history-labels", "instance=gw-1,cluster=e2e",
	})
	eventually(t, "blocks in the bucket", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return !slices.ContainsFunc(local, func(id string) bool { return s.objects["deep/"+id+"/meta.json"] == nil })
	})
	if code := g.end(t); code != 0 {
		t.Errorf("tare serve ends with code %d:\n%s", code, g.text())
	}
	store := startOf(t, program, []string{"store", "--bucket", bucket, "--http", "127.0.0.1:0", "--data-dir", t.TempDir(), "--diag-format", "json"})
	awaitReady(t, "the store", strings.TrimPrefix(store.http, "http://"))
	for n := 44; n < len(p.ends)-5*60; n += 45 {
		a := ask(t, store.http, "query", url.Values{"query": {`sum(tare_queries_total{instance="gw-1"})`}, "time": {fmt.Sprint(p.ends[n].Unix())}})
		if want := fmt.Sprintf(" %d]", p.at(p.ends[n])); !strings.Contains(fmt.Sprint(a.Data), want) || a.Status != "success" || warned(a) {
			t.Errorf("round %d: got %v, want %s", n, a, want)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reads == 0 || len(s.strange) > 0 {
		t.Errorf("%d reads of parts of objects, unknown requests %q; objects: %q", s.reads, s.strange, slices.Sorted(maps.Keys(s.objects)))
	}
}
