package bucketurl

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/minio/minio-go/v7"
	"github.com/thanos-io/objstore"
)

// A page is one response to a list request.
type page struct {
	buckets []string // the buckets that it states
	prefix  string   // the prefix that it states
	token   *string  // the continuation that it states to respond to; nil: none
	next    string   // the continuation of the next page; "": it is the last
	names   []string
}

// A pager parses the list requests and responses of one provider.
type pager struct {
	// request returns the prefix and the continuation of a list request, and false for other requests. It may
	// change the request, which is a copy.
	request func(*http.Request) (prefix, token string, ok bool)

	parse func(query url.Values, body []byte) (page, error)

	// lacks returns the header that the response with an object or its attributes lacks; "": none. nil: all are right.
	lacks func(*http.Response) string
}

// A listingCheck is a transport that replaces the response to a list request by an error unless it is a page of
// the requested listing. The clients decode a response of another kind, such as the page of a captive portal
// with status 200, as a listing without objects.
type listingCheck struct {
	next   http.RoundTripper
	bucket string
	pager  pager
}

// maxPage bounds a page of a listing in bytes: it has a thousand names of up to 1,024 bytes, 5,000 at Azure.
const maxPage = 32 << 20

// A ListingError reports a response to a list request that is not a page of the requested listing.
type ListingError struct {
	Bucket, Prefix string
	Err            error
}

// Error names bucket and prefix.
func (e *ListingError) Error() string {
	return fmt.Sprintf("the response of bucket %s to the request for a listing of %q is not one: %v", e.Bucket, e.Prefix, e.Err)
}

// Unwrap returns the defect.
func (e *ListingError) Unwrap() error { return e.Err }

// NonRetriable makes Azure's client return the error at once. The callers of a bucket retry.
func (*ListingError) NonRetriable() {}

// errRedirected reports a list request that was redirected to something else.
var errRedirected = errors.New("the request was redirected to another page")

// redirected returns the error of a response that a redirect led to, if a list request was redirected.
func (c *listingCheck) redirected(r *http.Request, response *http.Response, err error) (*http.Response, error) {
	if r.Response == nil || err != nil || response.StatusCode >= http.StatusMultipleChoices {
		return response, err
	}
	first := r
	for first.Response != nil && first.Response.Request != nil {
		first = first.Response.Request
	}
	prefix, _, ok := c.pager.request(first.Clone(first.Context()))
	if !ok {
		return response, nil
	}
	return nil, errors.Join(&ListingError{c.bucket, prefix, errRedirected}, response.Body.Close())
}

// An objectError reports a response with an object, or its attributes, without a header that each has.
type objectError struct{ bucket, path, lacks string }

// Error implements error.
func (e *objectError) Error() string {
	return fmt.Sprintf("the response of bucket %s to the request for %s is not that of an object store: it has no %s", e.bucket, e.path, e.lacks)
}

// NonRetriable makes Azure's client return the error at once. The callers of a bucket retry.
func (*objectError) NonRetriable() {}

// complete returns an error for a response without a header that the client dereferences.
func (c *listingCheck) complete(r *http.Request, response *http.Response, err error) (*http.Response, error) {
	read := r.Method == http.MethodHead || r.Method == http.MethodGet
	if err != nil || !read || response.StatusCode/100 != 2 || c.pager.lacks == nil {
		return response, err
	}
	if lacks := c.pager.lacks(response); lacks != "" {
		return nil, errors.Join(&objectError{c.bucket, r.URL.Path, lacks}, response.Body.Close())
	}
	return response, nil
}

// RoundTrip implements http.RoundTripper.
func (c *listingCheck) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet {
		response, err := c.next.RoundTrip(r)
		return c.complete(r, response, err)
	}
	sent := r.Clone(r.Context())
	prefix, token, ok := c.pager.request(sent)
	if !ok {
		response, err := c.next.RoundTrip(r) //nolint:bodyclose // returned
		if response, err = c.redirected(r, response, err); err != nil {
			return nil, err
		}
		return c.complete(r, response, err)
	}
	response, err := c.next.RoundTrip(sent)
	if err != nil || response.StatusCode >= http.StatusMultipleChoices {
		return response, err //nolint:wrapcheck // a transport's error
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxPage+1))
	err = errors.Join(err, response.Body.Close())
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("it has the status %d", response.StatusCode)
	}
	if err == nil && len(body) > maxPage {
		err = fmt.Errorf("it has more than %d bytes", maxPage)
	}
	if err == nil {
		var p page
		if p, err = c.pager.parse(sent.URL.Query(), body); err == nil {
			err = p.check(c.bucket, prefix, token, pagesOf(r.Context()))
		}
	}
	if err != nil {
		return nil, &ListingError{c.bucket, prefix, err}
	}
	response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return response, nil
}

// check compares a page with its request and with the earlier pages of the listing.
func (p *page) check(bucket, prefix, token string, earlier *pages) error {
	if i := slices.IndexFunc(p.buckets, func(b string) bool { return b != bucket }); i >= 0 && !isAlias(bucket) {
		return fmt.Errorf("it is of bucket %.80q", p.buckets[i])
	}
	switch {
	case p.prefix != prefix:
		return fmt.Errorf("it is of prefix %.80q", p.prefix)
	case p.token != nil && *p.token != token:
		return errors.New("it is another page than the requested one")
	}
	for _, name := range p.names {
		if !strings.HasPrefix(name, prefix) {
			return fmt.Errorf("it has %.80q", name)
		}
	}
	return earlier.add(token, p)
}

// isAlias reports whether a name is the alias of an access point of S3, which may respond with the bucket's name.
func isAlias(bucket string) bool {
	return strings.HasSuffix(bucket, "-s3alias") || strings.HasSuffix(bucket, "--ol-s3") || strings.HasSuffix(bucket, "--op-s3")
}

// pages are the pages of a listing so far. A nil pages has none.
type pages struct {
	mu    sync.Mutex
	first map[string]string // first name of each page, by the page's continuation
}

// add returns an error if a page repeats an earlier one: the listing would never end, or miss the page in whose
// place it is. A page may be requested again.
func (s *pages) add(token string, p *page) error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	name := ""
	if len(p.names) > 0 {
		name = p.names[0]
	}
	for other, first := range s.first {
		if other != token && name != "" && first == name {
			return errors.New("it repeats an earlier page")
		}
	}
	s.first[token] = name
	if _, known := s.first[p.next]; known && p.next != "" {
		return errors.New("its continuation is that of an earlier page")
	}
	return nil
}

type pagesKey struct{}

func pagesOf(ctx context.Context) *pages {
	s, _ := ctx.Value(pagesKey{}).(*pages)
	return s
}

// A checkedBucket marks the requests that belong to one listing, and reads objects without bytes.
type checkedBucket struct{ objstore.Bucket }

// Get implements objstore.BucketReader. S3's client returns io.EOF for an object without bytes, as it does for a response
// that is cut.
func (b checkedBucket) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	r, err := b.Bucket.Get(ctx, name)
	cause := err
	for cause != nil && cause != io.EOF { //nolint:errorlint // it is unwrapped step by step
		cause = errors.Unwrap(cause)
	}
	if cause == nil {
		return r, err //nolint:wrapcheck // the provider classifies its errors
	}
	if a, failed := b.Bucket.Attributes(ctx, name); failed != nil || a.Size != 0 {
		return nil, err //nolint:wrapcheck // the provider classifies its errors
	}
	return http.NoBody, nil
}

func (checkedBucket) mark(ctx context.Context) context.Context {
	return context.WithValue(ctx, pagesKey{}, &pages{first: make(map[string]string)})
}

// Iter implements objstore.BucketReader.
func (b checkedBucket) Iter(ctx context.Context, dir string, f func(string) error, options ...objstore.IterOption) error {
	return b.Bucket.Iter(b.mark(ctx), dir, f, options...) //nolint:wrapcheck // the provider classifies its errors
}

// IterWithAttributes implements objstore.BucketReader.
func (b checkedBucket) IterWithAttributes(ctx context.Context, dir string, f func(objstore.IterObjectAttributes) error, options ...objstore.IterOption) error {
	return b.Bucket.IterWithAttributes(b.mark(ctx), dir, f, options...) //nolint:wrapcheck // the provider classifies its errors
}

// s3Pager is that of both versions of S3's ListObjects.
var s3Pager = pager{ //nolint:gochecknoglobals // a table
	request: func(r *http.Request) (prefix, token string, ok bool) {
		q := r.URL.Query()
		return q.Get("prefix"), q.Get(s3Token(q)), q.Has("delimiter")
	},
	parse: parseS3Page,
}

// s3Token returns the parameter of a list request that has the continuation.
func s3Token(q url.Values) string {
	if q.Get("list-type") == "2" {
		return "continuation-token"
	}
	return "marker"
}

// parseS3Page parses a ListBucketResult.
func parseS3Page(query url.Values, body []byte) (page, error) {
	var l struct {
		Name, Prefix, EncodingType, NextContinuationToken, NextMarker string
		ContinuationToken, Marker                                     *string
		IsTruncated                                                   string
		KeyCount                                                      int
		Contents                                                      []struct{ Key string }
		CommonPrefixes                                                []struct{ Prefix string }
	}
	if err := decodeXML(body, "ListBucketResult", &l); err != nil {
		return page{}, err
	}
	decode := func(name string) string {
		if decoded, err := url.QueryUnescape(name); l.EncodingType == "url" && err == nil {
			return decoded
		}
		return name
	}
	p := page{buckets: []string{l.Name}, prefix: l.Prefix, token: l.ContinuationToken, next: l.NextContinuationToken}
	v1 := s3Token(query) == "marker"
	if v1 {
		p.token, p.next = l.Marker, l.NextMarker
	}
	if decode(p.prefix) == query.Get("prefix") { // some servers do not encode it
		p.prefix = query.Get("prefix")
	}
	if want := query.Get(s3Token(query)); p.token != nil && decode(*p.token) == want {
		p.token = &want
	}
	for _, o := range l.Contents {
		p.names = append(p.names, decode(o.Key))
	}
	for _, dir := range l.CommonPrefixes {
		p.names = append(p.names, decode(dir.Prefix))
	}
	switch {
	case l.IsTruncated != "true" && l.IsTruncated != "false":
		return p, errors.New("it does not state whether it is the last page")
	case !v1 && (l.IsTruncated == "true") != (p.next != ""):
		return p, fmt.Errorf("it states IsTruncated %s and the continuation %.80q", l.IsTruncated, p.next)
	case l.KeyCount > len(p.names):
		return p, fmt.Errorf("it states %d names and has %d", l.KeyCount, len(p.names))
	}
	return p, nil
}

// decodeXML decodes a document with the given root element. An S3 error is returned in the client's type.
func decodeXML(body []byte, root string, v any) error {
	body = bytes.TrimPrefix(body, []byte("\xef\xbb\xbf")) // Azure's begin with it
	d := xml.NewDecoder(bytes.NewReader(body))
	start, err := rootOf(d)
	if err != nil {
		return fmt.Errorf("it is not XML: %w", err)
	}
	switch start.Name.Local {
	case root:
	case "Error":
		var e minio.ErrorResponse
		if err := d.DecodeElement(&e, &start); err != nil {
			return fmt.Errorf("it is an error: %w", err)
		}
		return fmt.Errorf("it is the error %s: %w", e.Code, e)
	default:
		return fmt.Errorf("its root element is %.80q, not %s", start.Name.Local, root)
	}
	if err := d.DecodeElement(v, &start); err != nil {
		return fmt.Errorf("decode it: %w", err)
	}
	if rest := bytes.TrimSpace(body[d.InputOffset():]); len(rest) > 0 {
		return fmt.Errorf("there is text after the end of %s", root)
	}
	return nil
}

// rootOf returns the root element of a document.
func rootOf(d *xml.Decoder) (xml.StartElement, error) {
	for {
		token, err := d.Token()
		if err != nil {
			return xml.StartElement{}, err //nolint:wrapcheck // the caller wraps it
		}
		if start, ok := token.(xml.StartElement); ok {
			return start, nil
		}
	}
}

// checkListings returns a function that adds a listingCheck to a provider's transport.
func checkListings(bucket string, p pager) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper { return &listingCheck{next, bucket, p} }
}
