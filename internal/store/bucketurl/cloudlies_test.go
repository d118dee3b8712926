//go:build gcs || azure

package bucketurl

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/thanos-io/objstore"
)

// cloudPages are the continuations of the pages that a cloudLister lists: five names each.
var cloudPages = []string{"", "p1", "p2"}

// A cloudLister serves the list requests of a fake provider: right pages, or a wrong response to one of them.
type cloudLister struct {
	kind string                                                  // Content-Type of a page
	page func(prefix, token, next string, names []string) string // a page of the bucket

	lie   *cloudLie
	at    string // continuation of the page with the wrong response
	times int    // of wrong responses
}

// A cloudLie is a wrong response to a list request.
type cloudLie struct {
	name       string
	status     int
	kind, body string
	change     func(page string) string // in place of body: the right page, changed
	repeats    bool                     // the first page is repeated in place of the page
	complete   bool                     // a listing is complete all the same
}

// serve responds to a list request.
func (l *cloudLister) serve(w http.ResponseWriter, prefix, token string) {
	page := func(token string) string {
		n := slices.Index(cloudPages, token)
		next := append(cloudPages[1:], "")[max(n, 0)]
		var names []string
		for i := range 5 {
			names = append(names, fmt.Sprintf("%sname%d%d", prefix, n, i))
		}
		return l.page(prefix, token, next, names)
	}
	kind, status, body := l.kind, http.StatusOK, page(token)
	if lie := l.lie; lie != nil && token == l.at {
		l.times++
		switch {
		case lie.repeats:
			body = page("")
		case lie.change != nil:
			body = lie.change(body)
		default:
			kind, status, body = lie.kind, lie.status, lie.body
		}
		if lie.status == http.StatusFound {
			w.Header().Set("Location", "/sign-in")
		}
	}
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body)) // the client may have disconnected
}

const signIn = "<!DOCTYPE html><html><head><title>Sign in</title></head><body></body></html>"

func replaced(old, by string) func(string) string {
	return func(page string) string { return strings.Replace(page, old, by, 1) }
}

// cloudLies are the wrong responses that do not depend on the provider.
var cloudLies = []cloudLie{
	{name: "a sign-in page", status: 200, kind: "text/html", body: signIn},
	{name: "a sign-in page as JSON", status: 200, kind: "application/json", body: signIn},
	{name: "a redirect to a sign-in page", status: 302, kind: "text/html", body: signIn},
	{name: "an empty body", status: 200},
	{name: "no content", status: 204},
	{name: "an empty object", status: 200, kind: "application/json", body: "{}"},
	{name: "null", status: 200, kind: "application/json", body: "null"},
	{name: "an array", status: 200, kind: "application/json", body: "[]"},
	{name: "JSON of another service", status: 200, kind: "application/json", body: `{"status":"ok","items":[]}`},
	{name: "a list of buckets", status: 200, kind: "application/json", body: `{"kind":"storage#buckets","items":[]}`},
	{name: "an error of JSON with status 200", status: 200, kind: "application/json", body: `{"error":{"code":403,"message":"denied"}}`},
	{name: "an error of XML with status 200", status: 200, kind: "application/xml", body: `<?xml version="1.0"?><Error><Code>AuthorizationFailure</Code></Error>`},
	{name: "a listing of S3", status: 200, kind: "application/xml", body: `<ListBucketResult><Name>bkt</Name><IsTruncated>false</IsTruncated></ListBucketResult>`},
	{name: "a list of containers", status: 200, kind: "application/xml", body: `<EnumerationResults ServiceEndpoint="x"><Containers/><NextMarker/></EnumerationResults>`},
	{name: "an unauthorized request", status: 401},
	{name: "a denied request", status: 403, kind: "text/html", body: signIn},
	{name: "a missing bucket", status: 404},
	{name: "a page of a proxy", status: 502, kind: "text/html", body: "<html>bad gateway</html>"},
	{name: "half of the page", change: func(p string) string { return p[:len(p)/2] }},
	{name: "the page twice", change: func(p string) string { return p + p }},
	{name: "text after the page", change: func(p string) string { return p + "<x>" }},
	{name: "an undeclared compression", change: func(p string) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write([]byte(p)) // a buffer never fails
		_ = z.Close()
		return b.String()
	}},
	{name: "a name of another prefix", change: replaced("deep/name", "else/name")},
	{name: "a continuation of an earlier page", change: func(p string) string {
		return strings.NewReplacer("p2", "p1", "p1", "p1").Replace(p)
	}},
	{name: "the first page again", repeats: true},
}

// testCloudLies has each wrong response to the first page of a listing, and to a later one: the listing is an error,
// or complete.
func testCloudLies(t *testing.T, l *cloudLister, open func() objstore.Bucket, more []cloudLie) {
	t.Helper()
	list := func() (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second) // a client may retry for long
		defer cancel()
		var names []string
		err := open().Iter(ctx, "", func(name string) error { names = append(names, name); return nil })
		return strings.Join(names, " "), err
	}
	want, err := list()
	if err != nil || len(strings.Fields(want)) != 15 {
		t.Fatalf("%q, %v", want, err)
	}
	for _, lie := range slices.Concat(cloudLies, more) {
		for _, at := range cloudPages[:2] {
			if lie.repeats && at == "" {
				continue
			}
			l.lie, l.at, l.times = &lie, at, 0
			got, err := list()
			var listing *ListingError
			switch {
			case l.times == 0:
				t.Errorf("%s, page %q: not requested", lie.name, at)
			case lie.complete && (err != nil || got != want):
				t.Errorf("%s, page %q: %v, %q", lie.name, at, err, got)
			case err == nil && got != want:
				t.Errorf("%s, page %q: a listing without an error: %q", lie.name, at, got)
			case lie.status <= 302 && err != nil && !errors.As(err, &listing):
				t.Errorf("%s, page %q: no ListingError: %v", lie.name, at, err)
			}
		}
	}
}

// openCloud opens a bucket.
func openCloud(t *testing.T, url string) objstore.Bucket {
	t.Helper()
	u, err := Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	b, err := u.Open()
	if err != nil {
		t.Fatal(err)
	}
	return b
}
