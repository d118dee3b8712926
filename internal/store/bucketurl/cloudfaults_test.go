//go:build gcs && azure

package bucketurl_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"html"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.yaml.in/yaml/v3"

	"github.com/taredb/tare/internal/store/blocksync"
	"github.com/taredb/tare/internal/store/bucketurl"
	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/internal/testpromql"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/teststore"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/store/storegateway"
	"github.com/taredb/tare/store/tsblock"
)

// A cloud serves the objects of one bucket as Google Cloud Storage or as Azure Blob Storage. It responds wrongly to the
// requests of one kind.
type cloud struct {
	azure   bool
	objects map[string][]byte

	mu    sync.Mutex
	fault *cloudFault
	call  string
	done  int             // wrong responses
	seen  map[string]bool // kinds of requests
}

// cloudCalls are the kinds of requests for objects: attributes, and reads of these files.
var cloudCalls = []string{"attributes", "meta.json", "index", "chunks"}

// An object is a response for an object.
type object struct {
	status int
	header http.Header
	body   []byte
	length int // Content-Length, if it is not that of the body; -1: none
}

// A cloudFault changes the right response for an object. whole is the object, and from and to the requested range.
type cloudFault struct {
	name   string
	change func(o *object, whole []byte, from, to int)
}

func fixed(status int, kind, body string) func(*object, []byte, int, int) {
	return func(o *object, _ []byte, _, _ int) {
		*o = object{status: status, header: http.Header{"Content-Type": {kind}}, body: []byte(body)}
		if status/100 == 3 {
			o.header.Set("Location", "/sign-in")
		}
	}
}

func withBody(change func(body []byte) []byte) func(*object, []byte, int, int) {
	return func(o *object, _ []byte, _, _ int) { o.body = change(o.body) }
}

func ranged(at func(from, to, size int) (int, int)) func(*object, []byte, int, int) {
	return func(o *object, whole []byte, from, to int) {
		a, b := at(from, to, len(whole))
		a = min(max(a, 0), len(whole))
		o.body = whole[a:min(max(a, b), len(whole))]
	}
}

const (
	signInPage = "<!DOCTYPE html><html><head><title>Sign in</title></head><body></body></html>"
	xmlError   = `<?xml version="1.0"?><Error><Code>InternalError</Code><Message>x</Message></Error>`
	jsonError  = `{"error":{"code":403,"message":"denied"}}`
)

var cloudFaults = []cloudFault{
	{"a sign-in page", fixed(200, "text/html", signInPage)},
	{"a sign-in page with status 206", fixed(206, "text/html", signInPage)},
	{"a redirect to a sign-in page", fixed(302, "text/html", signInPage)},
	{"a permanent redirect", fixed(301, "text/html", "")},
	{"no content", fixed(204, "", "")},
	{"an empty body", fixed(200, "", "")},
	{"an expired token", fixed(400, "application/xml", xmlError)},
	{"an unauthorized request", fixed(401, "text/html", signInPage)},
	{"a denied request", fixed(403, "application/json", jsonError)},
	{"a page of a web server that has no such page", fixed(404, "text/html", "<html>not found</html>")},
	{"an unsatisfiable range", fixed(416, "application/xml", xmlError)},
	{"a page of a proxy", fixed(502, "text/html", "<html>bad gateway</html>")},
	{"a page of a proxy after its time-out", fixed(504, "text/html", "<html>timeout</html>")},
	{"an error of XML with status 200", fixed(200, "application/xml", xmlError)},
	{"an error of JSON with status 200", fixed(200, "application/json", jsonError)},
	{"the attributes of another object", fixed(200, "application/json", `{"kind":"storage#object","bucket":"bkt","name":"tsdb/other","size":"7"}`)},
	{"attributes without a size", fixed(200, "application/json", `{"kind":"storage#object","bucket":"bkt"}`)},
	{"half of the body", withBody(func(b []byte) []byte { return b[:len(b)/2] })},
	{"half of the body, and a broken connection", func(o *object, _ []byte, _, _ int) {
		o.header.Set("Content-Length", strconv.Itoa(len(o.body)))
		o.length = len(o.body)
		o.body = o.body[:len(o.body)/2]
	}},
	{"the body twice", withBody(func(b []byte) []byte { return slices.Concat(b, b) })},
	{"zeros", withBody(func(b []byte) []byte { return make([]byte, len(b)) })},
	{"one wrong bit", withBody(func(b []byte) []byte {
		b = bytes.Clone(b)
		if len(b) > 0 {
			b[len(b)/2] ^= 1
		}
		return b
	})},
	{"an undeclared compression", withBody(compressed)},
	{"a declared compression", func(o *object, _ []byte, _, _ int) {
		o.body = compressed(o.body)
		o.header.Set("Content-Encoding", "gzip")
	}},
	{"the whole object in place of a range", ranged(func(_, _, size int) (int, int) { return 0, size })},
	{"the whole object with status 200", func(o *object, whole []byte, _, _ int) {
		o.status, o.body = http.StatusOK, whole
		o.header.Del("Content-Range")
	}},
	{"a shorter range", ranged(func(from, to, _ int) (int, int) { return from, to - 1 })},
	{"a longer range", ranged(func(from, to, _ int) (int, int) { return from, to + 1 })},
	{"a range from one byte before", ranged(func(from, to, _ int) (int, int) { return from - 1, to - 1 })},
	{"a stale time", func(o *object, _ []byte, _, _ int) { o.header.Set("Last-Modified", "Thu, 01 Jan 1970 00:00:00 GMT") }},
	{"a time in the future", func(o *object, _ []byte, _, _ int) { o.header.Set("Last-Modified", "Fri, 01 Jan 2100 00:00:00 GMT") }},
	{"no Content-Length", func(o *object, _ []byte, _, _ int) { o.length = -1 }},
	{"a sign-in page without Content-Length", func(o *object, _ []byte, _, _ int) {
		*o = object{status: http.StatusOK, header: http.Header{"Content-Type": {"text/html"}}, body: []byte(signInPage), length: -1}
	}},
	{"neither ETag nor times", func(o *object, _ []byte, _, _ int) { o.header.Del("ETag"); o.header.Del("Last-Modified") }},
}

func compressed(b []byte) []byte {
	var to bytes.Buffer
	z := gzip.NewWriter(&to)
	_, _ = z.Write(b) // a buffer never fails
	_ = z.Close()
	return to.Bytes()
}

// ServeHTTP serves tokens, the listing and objects.
func (c *cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	switch p := r.URL.Path; {
	case p == "/token":
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"access_token":"a-token","token_type":"Bearer","expires_in":3600}`))
	case p == "/sign-in":
		_, _ = w.Write([]byte(signInPage))
	case q.Get("comp") == "list" || strings.HasSuffix(p, "/b/bkt/o"):
		c.list(w, q.Get("prefix"), q.Get("delimiter"))
	case strings.Contains(p, "/b/bkt/o/"):
		c.object(w, r, p[strings.Index(p, "/o/")+3:], true)
	default: // /bkt/key, and Azure's /metrics/blocks/key
		key := strings.TrimPrefix(strings.TrimPrefix(p, "/bkt/"), "/metrics/blocks/")
		c.object(w, r, key, r.Method == http.MethodHead)
	}
}

// list lists all names of a prefix on one page.
func (c *cloud) list(w http.ResponseWriter, prefix, delimiter string) {
	var names, prefixes []string
	for key := range c.objects {
		rest, ok := strings.CutPrefix(key, prefix)
		dir, _, deeper := strings.Cut(rest, "/")
		switch {
		case !ok:
		case deeper && delimiter != "":
			prefixes = append(prefixes, prefix+dir+"/")
		default:
			names = append(names, key)
		}
	}
	slices.Sort(names)
	slices.Sort(prefixes)
	prefixes = slices.Compact(prefixes)
	if c.azure {
		w.Header().Set("Content-Type", "application/xml")
		fmt.Fprintf(w, `<?xml version="1.0"?><EnumerationResults ServiceEndpoint="https://metrics.blob.core.windows.net/" ContainerName="blocks"><Prefix>%s</Prefix><Blobs>`, html.EscapeString(prefix))
		for _, name := range names {
			fmt.Fprintf(w, "<Blob><Name>%s</Name><Properties><Content-Length>%d</Content-Length></Properties></Blob>", name, len(c.objects[name]))
		}
		for _, name := range prefixes {
			fmt.Fprintf(w, "<BlobPrefix><Name>%s</Name></BlobPrefix>", name)
		}
		fmt.Fprint(w, `</Blobs><NextMarker/></EnumerationResults>`)
		return
	}
	type item struct {
		Bucket string `json:"bucket"`
		Name   string `json:"name"`
	}
	items := make([]item, len(names))
	for i, name := range names {
		items[i] = item{"bkt", name}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"kind": "storage#objects", "items": items, "prefixes": prefixes}) // the client may have disconnected
}

// object serves an object or its attributes.
func (c *cloud) object(w http.ResponseWriter, r *http.Request, key string, attributes bool) {
	kind := path.Base(key)
	switch {
	case attributes:
		kind = "attributes"
	case path.Base(path.Dir(key)) == "chunks":
		kind = "chunks"
	}
	whole, found := c.objects[key]
	o, from, to := c.right(r, key, whole, found, attributes)
	c.mu.Lock()
	c.seen[kind] = true
	if f := c.fault; f != nil && kind == c.call && found {
		c.done++
		f.change(&o, whole, from, to)
	}
	c.mu.Unlock()
	for name, values := range o.header {
		w.Header()[name] = values
	}
	if o.length == 0 && o.status != http.StatusNoContent {
		o.length = len(o.body)
		w.Header().Set("Content-Length", strconv.Itoa(o.length))
	}
	if r.Method == http.MethodHead {
		o.body = nil
	}
	w.WriteHeader(o.status)
	if o.length < 0 {
		_ = http.NewResponseController(w).Flush() // the client may have disconnected
	}
	_, _ = w.Write(o.body)
	if r.Method != http.MethodHead && o.length > len(o.body) {
		panic(http.ErrAbortHandler)
	}
}

// right returns the right response for an object, and the requested range.
func (c *cloud) right(r *http.Request, key string, whole []byte, found, attributes bool) (o object, from, to int) {
	o.header, to = make(http.Header), len(whole)
	switch {
	case !found && c.azure:
		o.header.Set("X-Ms-Error-Code", "BlobNotFound")
		o.status, o.body = http.StatusNotFound, []byte(`<?xml version="1.0"?><Error><Code>BlobNotFound</Code></Error>`)
		return o, 0, 0
	case !found:
		o.status, o.body = http.StatusNotFound, []byte(`{"error":{"code":404,"message":"No such object"}}`)
		return o, 0, 0
	}
	o.status, o.body = http.StatusOK, whole
	o.header.Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
	o.header.Set("ETag", `"1"`)
	if attributes && !c.azure {
		o.header.Set("Content-Type", "application/json")
		o.body = fmt.Appendf(nil, `{"kind":"storage#object","bucket":"bkt","name":%q,"size":"%d","updated":%q}`, key, len(whole), time.Now().UTC().Format(time.RFC3339))
		return o, 0, len(o.body)
	}
	o.header.Set("Content-Type", "application/octet-stream")
	asked := r.Header.Get("Range")
	if asked == "" {
		asked = r.Header.Get("X-Ms-Range")
	}
	if n, err := fmt.Sscanf(asked, "bytes=%d-%d", &from, &to); asked != "" && n >= 1 {
		if err == nil {
			to++
		}
		if from >= len(whole) {
			o.status, o.body = http.StatusRequestedRangeNotSatisfiable, nil
			return o, 0, 0
		}
		to = min(to, len(whole))
		o.status, o.body = http.StatusPartialContent, whole[from:to]
		o.header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to-1, len(whole)))
	}
	return o, from, to
}

// set has a fault in all requests of a kind; nil: in none. It returns the number of wrong responses so far.
func (c *cloud) set(fault *cloudFault, call string) (done int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	done, c.done = c.done, 0
	c.fault, c.call = fault, call
	return done
}

// cloudBlocks writes three blocks below tsdb/ and returns the objects and the end of the samples.
func cloudBlocks(t *testing.T) (objects map[string][]byte, blocks []string, end int64) {
	t.Helper()
	dir := t.TempDir()
	o := testblock.RandomOptions{Series: 12, Samples: 200, Start: 1_700_000_000_000, Step: 15_000}
	series := testblock.Random(rand.New(rand.NewPCG(testseed.New(t), 5)), o)
	end = o.Start + int64(o.Samples)*o.Step
	third := (end - o.Start) / 3
	for n := range int64(3) {
		from := o.Start + n*third
		id, err := testblock.Write(dir, testblock.Between(series, from, from+third), testblock.Options{External: map[string]string{"region": "eu"}, ChunkRange: o.ChunkRange()})
		if err != nil {
			t.Fatal(err)
		}
		blocks = append(blocks, id.String())
	}
	objects = make(map[string][]byte)
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		objects["tsdb/"+filepath.ToSlash(strings.TrimPrefix(name, dir+string(filepath.Separator)))] = text
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return objects, blocks, end
}

// TestCloudFaults has fakes of Google Cloud Storage and of Azure Blob Storage respond wrongly to each kind of request for
// objects. Every response of a store over them, whether it knew the blocks before or not, is the one without faults, has a
// warning that names blocks, or is an error; a store without blocks is not ready.
func TestCloudFaults(t *testing.T) {
	objects, blocks, end := cloudBlocks(t)
	for _, provider := range []string{"gcs", "azure"} {
		t.Run(provider, func(t *testing.T) {
			c := &cloud{azure: provider == "azure", objects: objects, seen: make(map[string]bool)}
			server := httptest.NewServer(c)
			defer server.Close()
			location, bucket := "gs://bkt/tsdb?config_file=", "bkt"
			config := bucketurl.GCSConfig
			if c.azure {
				location, bucket, config = "azblob://blocks/tsdb?config_file=", "blocks", bucketurl.AzureConfig
			}
			location += triesOnce(t, config(t, server.URL))
			testCloudFaults(t, c, location, testpromql.Faulty{Bucket: bucket, Blocks: blocks, Damaged: true}, end)
		})
	}
}

// triesOnce changes a config_file: the client does not repeat requests, since the store does.
func triesOnce(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err := yaml.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	options, ok := config["config"].(map[string]any)
	if !ok {
		t.Fatal(config)
	}
	if config["type"] == "AZURE" {
		options["pipeline_config"] = map[string]any{"max_tries": 1}
	} else {
		options["max_retries"] = 1
	}
	if text, err = yaml.Marshal(config); err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func testCloudFaults(t *testing.T, c *cloud, location string, faulty testpromql.Faulty, end int64) {
	t.Helper()
	open := func(t *testing.T) (*storegateway.Gateway, string) {
		t.Helper()
		u, err := bucketurl.Parse(location)
		if err != nil {
			t.Fatal(err)
		}
		b, err := u.Open()
		if err != nil {
			t.Fatal(err)
		}
		o := teststore.Options(t, b)
		o.Layout, o.PlainBucket, o.CallTries, o.CallTimeout = blocksync.LayoutPrometheus, true, 1, 2*time.Second
		o.Registerer = prometheus.NewRegistry() // its metrics wrap the bucket's readers
		o.Cache, o.DamageHold = tsblock.NewCache(64<<10), time.Nanosecond
		g := teststore.New(t, o)
		h, err := storegateway.NewHTTPAPI(g, storegateway.HTTPOptions{Log: slog.New(slog.DiscardHandler), Timeout: 20 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		api := httptest.NewServer(h)
		t.Cleanup(api.Close)
		return g, api.URL
	}
	target := "/api/v1/query?" + url.Values{"query": {`{__name__=~".+"}[3d]`}, "time": {strconv.FormatInt(end/1000, 10)}}.Encode()
	ask := func(ctx context.Context, base string) testpromql.Response {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, base+target, nil)
		if err != nil {
			return testpromql.Response{Err: err}
		}
		return testpromql.Exchange(http.DefaultClient, r)
	}
	g, base := open(t)
	if err := g.Sync(t.Context()); err != nil || len(g.Blocks()) != len(faulty.Blocks) {
		t.Fatal(err, g.Blocks(), g.Skipped())
	}
	want := ask(t.Context(), base)
	if want.Code != http.StatusOK || !strings.Contains(want.Body, `"values":[`) {
		t.Fatal(want)
	}
	for _, call := range cloudCalls {
		if !c.seen[call] {
			t.Fatalf("no request of kind %s", call)
		}
	}
	outcomes := make(map[string]int)
	for _, fault := range cloudFaults {
		for _, call := range cloudCalls {
			t.Run(call+", "+fault.name, func(t *testing.T) {
				known, knownBase := open(t)
				if err := known.Sync(t.Context()); err != nil {
					t.Fatal(err)
				}
				fresh, freshBase := open(t)
				c.set(&fault, call)
				_, _ = fresh.Sync(t.Context()), known.Sync(t.Context()) // may fail
				for when, s := range map[string]string{"unknown blocks": freshBase, "known blocks": knownBase} {
					got := ask(t.Context(), s)
					if when == "unknown blocks" && !fresh.Ready() {
						if got.Code != http.StatusServiceUnavailable {
							t.Errorf("%s, not ready: %s", when, got)
						}
						outcomes["not ready"]++
						continue
					}
					outcome, err := faulty.Judge(want, got)
					if err != nil {
						t.Errorf("%s: %v; sync: %+v", when, err, fresh.Status())
					}
					outcomes[string(outcome)]++
				}
				if c.set(nil, "") == 0 {
					t.Error("no response was wrong")
				}
				testwait.Until(t, "a sync after the fault", func() bool { return known.Sync(t.Context()) == nil })
				testwait.Until(t, "the response without the fault", func() bool { return ask(t.Context(), knownBase) == want })
			})
		}
	}
	t.Logf("%d kinds of wrong responses to %d kinds of requests: %v", len(cloudFaults), len(cloudCalls), outcomes)
}
