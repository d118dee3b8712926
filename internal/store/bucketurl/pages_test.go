package bucketurl

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/thanos-io/objstore"
)

// TestS3Pages parses pages of both versions of S3's listings, and refuses those that contradict their requests or themselves.
func TestS3Pages(t *testing.T) {
	const two, one = "list-type=2&", ""
	result := func(fields string) string { return "<ListBucketResult><Name>b</Name>" + fields + "</ListBucketResult>" }
	const last, more = "<IsTruncated>false</IsTruncated>", "<IsTruncated>true</IsTruncated>"
	for name, c := range map[string]struct {
		query, body string
		want        string // bucket, prefix, token, next, names; "": an error
	}{
		"empty":                   {two, result(last), `b "" none "" []`},
		"names":                   {two, result(last + "<Prefix>a/</Prefix><Contents><Key>a/x</Key></Contents><CommonPrefixes><Prefix>a/y/</Prefix></CommonPrefixes><KeyCount>2</KeyCount>"), `b "a/" none "" ["a/x" "a/y/"]`},
		"encoded":                 {two + "prefix=a+b&continuation-token=t%2B", result(last + "<EncodingType>url</EncodingType><Prefix>a%20b</Prefix><ContinuationToken>t%2B</ContinuationToken><Contents><Key>a+b%2Fx</Key></Contents>"), `b "a b" t+ "" ["a b/x"]`},
		"a prefix not encoded":    {two + "prefix=a%252F", result(last + "<EncodingType>url</EncodingType><Prefix>a%2F</Prefix>"), `b "a%2F" none "" []`},
		"a token not encoded":     {two + "continuation-token=t%252B", result(last + "<EncodingType>url</EncodingType><ContinuationToken>t%2B</ContinuationToken>"), `b "" t%2B "" []`},
		"names not encoded":       {two, result(last + "<Contents><Key>a%2Fx</Key></Contents>"), `b "" none "" ["a%2Fx"]`},
		"malformed encoding":      {two, result(last + "<EncodingType>url</EncodingType><Contents><Key>a%zz</Key></Contents>"), `b "" none "" ["a%zz"]`},
		"another token":           {two + "continuation-token=t", result(last + "<ContinuationToken>u</ContinuationToken>"), `b "" u "" []`},
		"not the last":            {two, result(more + "<NextContinuationToken>n</NextContinuationToken>"), `b "" none "n" []`},
		"no continuation":         {two, result(more), ""},
		"a continuation too many": {two, result(last + "<NextContinuationToken>n</NextContinuationToken>"), ""},
		"the first version":       {one + "marker=m", result(more + "<Marker>m</Marker><NextMarker>n</NextMarker><ContinuationToken>c</ContinuationToken>"), `b "" m "n" []`},
		"it may lack a marker":    {one, result(more), `b "" none "" []`},
		"unknown end":             {two, result(""), ""},
		"another end":             {two, result("<IsTruncated>maybe</IsTruncated>"), ""},
		"as many names":           {two, result(last + "<KeyCount>1</KeyCount><Contents><Key>a</Key></Contents>"), `b "" none "" ["a"]`},
		"names are missing":       {two, result(last + "<KeyCount>2</KeyCount><Contents><Key>a</Key></Contents>"), ""},
		"a byte order mark":       {two, "\xef\xbb\xbf<?xml version='1.0'?>\n" + result(last), `b "" none "" []`},
		"white space at the end":  {two, result(last) + " \n", `b "" none "" []`},
		"text at the end":         {two, result(last) + "x", ""},
		"a second root":           {two, result(last) + result(last), ""},
		"cut":                     {two, strings.TrimSuffix(result(last), "</ListBucketResult>"), ""},
		"no XML":                  {two, "hello", ""},
		"nothing":                 {two, "", ""},
		"another root":            {two, "<html></html>", ""},
		"a number":                {two, result(last + "<KeyCount>many</KeyCount>"), ""},
	} {
		query, err := url.ParseQuery(c.query)
		if err != nil {
			t.Fatal(err)
		}
		p, err := parseS3Page(query, []byte(c.body))
		got := ""
		if err == nil {
			token := "none"
			if p.token != nil {
				token = *p.token
			}
			got = fmt.Sprintf("%s %q %s %q %q", strings.Join(p.buckets, " "), p.prefix, token, p.next, p.names)
		}
		if got != c.want {
			t.Errorf("%s: %s (%v), want %s", name, got, err, c.want)
		}
	}
	for body, want := range map[string]string{
		"<Error><Code>SlowDown</Code></Error>": "it is the error SlowDown", "<Error><Code>": "it is an error", "<Error><Code>NoSuchBucket</Code></Error>": "NoSuchBucket",
	} {
		_, err := parseS3Page(url.Values{}, []byte(body))
		if err == nil || !strings.Contains(err.Error(), want) || Missing(err) != strings.Contains(body, "NoSuchBucket") {
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
}

// TestPageChecks compares pages with their requests and with earlier pages.
func TestPageChecks(t *testing.T) {
	token := func(s string) *string { return &s }
	for name, c := range map[string]struct {
		bucket string
		p      page
		ok     bool
	}{
		"right":            {"b", page{buckets: []string{"b", "b"}, prefix: "a/", names: []string{"a/x", "a/"}, token: token("t")}, true},
		"no bucket":        {"b", page{prefix: "a/"}, true},
		"another bucket":   {"b", page{buckets: []string{"b", "c"}, prefix: "a/"}, false},
		"an alias":         {"b-s3alias", page{buckets: []string{"c"}, prefix: "a/"}, true},
		"another alias":    {"b--ol-s3", page{buckets: []string{"c"}, prefix: "a/"}, true},
		"a third alias":    {"b--op-s3", page{buckets: []string{"c"}, prefix: "a/"}, true},
		"another prefix":   {"b", page{prefix: ""}, false},
		"another token":    {"b", page{prefix: "a/", token: token("u")}, false},
		"a name elsewhere": {"b", page{prefix: "a/", names: []string{"a/x", "b/x"}}, false},
	} {
		if err := c.p.check(c.bucket, "a/", "t", nil); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	s := &pages{first: make(map[string]string)}
	for i, c := range []struct {
		token, next string
		names       []string
		ok          bool
	}{
		{"", "1", []string{"a", "b"}, true},
		{"", "1", []string{"a", "b"}, true},
		{"1", "2", []string{"c"}, true},
		{"2", "3", nil, true},
		{"3", "4", nil, true},
		{"4", "5", []string{"c", "d"}, false},
		{"4", "1", []string{"d"}, false},
		{"4", "4", []string{"d"}, false},
		{"4", "", []string{"d"}, true},
	} {
		if err := s.add(c.token, &page{names: c.names, next: c.next}); (err == nil) != c.ok {
			t.Errorf("page %d: %v", i, err)
		}
	}
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// closing is a body that records whether it was closed.
type closing struct {
	io.Reader
	closed bool
	err    error // of Close
}

func (c *closing) Close() error { c.closed = true; return c.err }

// TestListingCheck passes responses on, or replaces those to list requests that are no page.
func TestListingCheck(t *testing.T) {
	const good = "<ListBucketResult><Name>b</Name><IsTruncated>false</IsTruncated></ListBucketResult>"
	lost := errors.New("lost")
	const list, object = "/?delimiter=/&list-type=2", "/key"
	for name, c := range map[string]struct {
		method, target string
		status         int
		body           io.Reader
		closeErr       error
		err            error // of the transport
		want           string
	}{
		"a page":                   {http.MethodGet, list, 200, strings.NewReader(good), nil, nil, good},
		"no page":                  {http.MethodGet, list, 200, strings.NewReader("<html></html>"), nil, nil, "error: root element"},
		"another success":          {http.MethodGet, list, 204, strings.NewReader(good), nil, nil, "error: status 204"},
		"a refusal":                {http.MethodGet, list, 403, strings.NewReader("denied"), nil, nil, "denied"},
		"a redirect":               {http.MethodGet, list, 300, strings.NewReader("elsewhere"), nil, nil, "elsewhere"},
		"a lost request":           {http.MethodGet, list, 0, nil, nil, lost, "lost"},
		"a lost page":              {http.MethodGet, list, 200, io.MultiReader(strings.NewReader(good), iotest.ErrReader(lost)), nil, nil, "error: lost"},
		"a page not closed":        {http.MethodGet, list, 200, strings.NewReader(good), lost, nil, "error: lost"},
		"a long page":              {http.MethodGet, list, 200, io.LimitReader(zeros{}, maxPage+1), nil, nil, "error: more than"},
		"an object":                {http.MethodGet, object, 200, strings.NewReader("text"), nil, nil, "text"},
		"an object that is lost":   {http.MethodGet, object, 0, nil, nil, lost, "lost"},
		"an object without header": {http.MethodGet, object, 206, strings.NewReader("text"), nil, nil, "text"},
		"attributes":               {http.MethodHead, object, 200, strings.NewReader(""), nil, nil, ""},
		"a write":                  {http.MethodPut, object, 200, strings.NewReader("ok"), nil, nil, "ok"},
		"a lost write":             {http.MethodPut, object, 0, nil, nil, lost, "lost"},
	} {
		body := &closing{Reader: c.body, err: c.closeErr}
		check := &listingCheck{bucket: "b", pager: s3Pager, next: transport(func(r *http.Request) (*http.Response, error) {
			if c.err != nil {
				return nil, c.err
			}
			return &http.Response{StatusCode: c.status, Body: body, Request: r}, nil
		})}
		response, err := check.RoundTrip(httptest.NewRequest(c.method, "http://s3"+c.target, nil))
		if want, ok := strings.CutPrefix(c.want, "error: "); ok {
			var listing *ListingError
			if !errors.As(err, &listing) || !strings.Contains(err.Error(), want) || listing.Bucket != "b" || response != nil || !body.closed {
				t.Errorf("%s: %v, want %s; the body is closed: %v", name, err, want, body.closed)
			}
			continue
		}
		if c.err != nil {
			if !errors.Is(err, c.err) || response != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		text, _ := io.ReadAll(response.Body)
		if string(text) != c.want || response.StatusCode != c.status || c.want == good && response.ContentLength != int64(len(good)) {
			t.Errorf("%s: %d %q", name, response.StatusCode, text)
		}
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }

// TestIncompleteObjects refuses a success without a header that the client requires.
func TestIncompleteObjects(t *testing.T) {
	pager := s3Pager
	pager.lacks = func(r *http.Response) string {
		if r.Header.Get("ETag") == "" {
			return "ETag"
		}
		return ""
	}
	for name, c := range map[string]struct {
		method string
		status int
		etag   string
		ok     bool
	}{
		"an object":          {http.MethodGet, 200, "e", true},
		"without":            {http.MethodGet, 200, "", false},
		"a part without":     {http.MethodGet, 206, "", false},
		"a refusal without":  {http.MethodGet, 404, "", true},
		"a redirect without": {http.MethodGet, 302, "", true},
		"attributes without": {http.MethodHead, 200, "", false},
		"attributes":         {http.MethodHead, 200, "e", true},
		"a write without":    {http.MethodPut, 200, "", true},
	} {
		body := &closing{Reader: strings.NewReader("x")}
		check := &listingCheck{bucket: "b", pager: pager, next: transport(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: c.status, Body: body, Request: r, Header: http.Header{"Etag": {c.etag}}}, nil
		})}
		_, err := check.RoundTrip(httptest.NewRequest(c.method, "http://s3/key", nil))
		var object *objectError
		if (err == nil) != c.ok || err != nil && (!errors.As(err, &object) || !strings.Contains(err.Error(), "/key") || !strings.Contains(err.Error(), "no ETag")) || body.closed == c.ok {
			t.Errorf("%s: %v, the body is closed: %v", name, err, body.closed)
		}
	}
}

// TestRedirectedListings refuses the response to which a redirect of a list request led, whatever it is.
func TestRedirectedListings(t *testing.T) {
	for name, c := range map[string]struct {
		first  string
		status int
		ok     bool
	}{
		"a listing": {"/?delimiter=/&prefix=p", 200, false}, "a listing that fails": {"/?delimiter=/", 404, true}, "an object": {"/key", 200, true}, "a listing of another status": {"/?delimiter=/", 299, false},
		"a second redirect": {"/?delimiter=/", 300, true},
	} {
		body := &closing{Reader: strings.NewReader("x")}
		check := &listingCheck{bucket: "b", pager: s3Pager, next: transport(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: c.status, Body: body, Request: r}, nil
		})}
		first := httptest.NewRequest(http.MethodGet, "http://s3"+c.first, nil)
		second := httptest.NewRequest(http.MethodGet, "http://s3/second", nil)
		second.Response = &http.Response{Request: first}
		third := httptest.NewRequest(http.MethodGet, "http://s3/third", nil)
		third.Response = &http.Response{Request: second}
		_, err := check.RoundTrip(third)
		if (err == nil) != c.ok || err != nil && !errors.Is(err, errRedirected) || body.closed == c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAdvice has what an operator can do about each kind of error.
func TestAdvice(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"a code":            {minio.ErrorResponse{Code: "SlowDown"}, "limits the rate"},
		"forbidden":         {minio.ErrorResponse{Code: "x", StatusCode: http.StatusForbidden}, "Correct the credentials"},
		"unauthorized":      {minio.ErrorResponse{StatusCode: http.StatusUnauthorized}, "Correct the credentials"},
		"a code, forbidden": {minio.ErrorResponse{Code: "RequestTimeTooSkewed", StatusCode: http.StatusForbidden}, "clock"},
		"another status":    {minio.ErrorResponse{Code: "x", StatusCode: http.StatusNotFound}, ""},
		"no bucket":         {minio.ErrorResponse{Code: "NoSuchBucket"}, "Create the bucket"},
		"a name":            {&net.OpError{Op: "dial", Err: &net.DNSError{Name: "x"}}, "DNS"},
		"an authority":      {x509.UnknownAuthorityError{}, "ca_file"},
		"a host":            {x509.HostnameError{Certificate: new(x509.Certificate)}, "server_name"},
		"no listing":        {&ListingError{Err: io.EOF}, "proxies"},
		"no connection":     {&net.OpError{Op: "dial", Err: io.EOF}, "firewalls"},
		"no permission":     {&os.PathError{Op: "open", Err: os.ErrPermission}, "read the directory"},
		"another":           {io.EOF, ""},
	} {
		if got := Advice(fmt.Errorf("sync: %w", c.err)); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if (&ListingError{Bucket: "b", Prefix: "p", Err: io.EOF}).Error() == "" || !errors.Is(&ListingError{Err: io.EOF}, io.EOF) {
		t.Error("the cause of a listing's error")
	}
}

// TestURLForms has the endpoint, the scheme and the name of URLs at the bounds of what they may be.
func TestURLForms(t *testing.T) {
	for text, want := range map[string]string{ // endpoint, plain; "": an error
		"s3://bucket":                                   "s3.amazonaws.com false",
		"s3://bucket?region=eu":                         "s3.eu.amazonaws.com false",
		"s3://bucket?endpoint=host:9000":                "host:9000 false",
		"s3://bucket?endpoint=http://host/":             "host true",
		"s3://bucket?endpoint=https://host":             "host false",
		"s3://bucket?endpoint=host&insecure=true":       "host true",
		"s3://bucket?endpoint=host&insecure=false":      "host false",
		"s3://bucket?endpoint=host&insecure=perhaps":    "",
		"s3://bucket?endpoint=":                         "",
		"s3://bucket?endpoint=host/path":                "",
		"s3://bucket?endpoint=user@host":                "",
		"s3://bucket?region=a&region=b":                 "",
		"s3://bucket?skip_verify=x":                     "",
		"s3://bucket?path_style=x":                      "",
		"s3://bucket?color=red":                         "",
		"s3://bucket?secret_key=x":                      "",
		"s3://bucket#x":                                 "",
		"s3://?region=eu":                               "",
		"s3:bucket":                                     "",
		"s3://user:pw@bucket":                           "",
		"s3://bucket?%zz":                               "",
		"s3://ab":                                       "",
		"s3://abc":                                      "s3.amazonaws.com false",
		"s3://Bucket":                                   "",
		"s3://under_score?endpoint=host":                "host false",
		"s3://under_score":                              "",
		"s3://under_score?endpoint=s3.eu.amazonaws.com": "",
		"ftp://bucket":                                  "",
		"file:///a/../b":                                " false",
		"file:///a?x=y":                                 "",
		"file:///a#x":                                   "",
		"file://host/a":                                 "",
		"file:a":                                        "",
		"://":                                           "",
	} {
		u, err := Parse(text)
		got := ""
		if err == nil {
			got = fmt.Sprint(u.config.Endpoint, " ", u.Plain())
		}
		if got != want {
			t.Errorf("%s: %q (%v), want %q", text, got, err, want)
		}
	}
	for text, want := range map[string]bool{"file:///a": true, "s3://b": true, "gs://b": true, "azblob://b": true, "http://b": false, "s3:b": false, "": false, "/a": false} {
		if HasScheme(text) != want {
			t.Errorf("%q has a scheme: %v", text, !want)
		}
	}
}

// TestDirListings lists a directory with links, loops, pipes, empty and unreadable directories: by name, and with times.
func TestDirListings(t *testing.T) {
	root := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(filepath.Join(root, "a", "deep"), 0o700))
	must(os.MkdirAll(filepath.Join(root, "empty"), 0o700))
	for _, name := range []string{"file", "a/x", "a/deep/y"} {
		must(os.WriteFile(filepath.Join(root, name), []byte("text"), 0o600))
	}
	must(os.Symlink("a", filepath.Join(root, "link")))
	must(os.Symlink(".", filepath.Join(root, "loop")))
	must(os.Symlink("nowhere", filepath.Join(root, "broken")))
	must(os.Symlink("file", filepath.Join(root, "filelink")))
	at := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	must(os.Chtimes(filepath.Join(root, "file"), at, at))
	u, err := Parse("file://" + root)
	must(err)
	b, err := u.Open()
	must(err)
	list := func(dir string, options ...objstore.IterOption) (string, error) {
		var names []string
		err := b.IterWithAttributes(t.Context(), dir, func(a objstore.IterObjectAttributes) error {
			name := a.Name
			if modified, ok := a.LastModified(); ok && modified.Equal(at) {
				name += "@"
			}
			names = append(names, name)
			return nil
		}, options...)
		slices.Sort(names)
		return strings.Join(names, " "), err
	}
	for name, c := range map[string]struct {
		dir     string
		options []objstore.IterOption
		want    string
	}{
		"the root":        {"", nil, "a/ broken file filelink link/ loop"},
		"with times":      {"", []objstore.IterOption{objstore.WithUpdatedAt()}, "a/ broken file@ filelink@ link/ loop"},
		"all":             {"", []objstore.IterOption{objstore.WithRecursiveIter()}, "a/deep/y a/x broken file filelink link/deep/y link/x loop"},
		"all with times":  {"", []objstore.IterOption{objstore.WithRecursiveIter(), objstore.WithUpdatedAt()}, "a/deep/y a/x broken file@ filelink@ link/deep/y link/x loop"},
		"a directory":     {"a", nil, "a/deep/ a/x"},
		"with a slash":    {"a/", nil, "a/deep/ a/x"},
		"a link":          {"link", nil, "link/deep/ link/x"},
		"nothing":         {"none", nil, ""},
		"a file":          {"file", nil, ""},
		"empty directory": {"empty", nil, ""},
	} {
		if got, err := list(c.dir, c.options...); err != nil || got != c.want {
			t.Errorf("%s: %s (%v), want %s", name, got, err, c.want)
		}
	}
	if !isEmpty(filepath.Join(root, "empty")) || isEmpty(filepath.Join(root, "a")) || !isEmpty(filepath.Join(root, "none")) {
		t.Error("empty directories")
	}
	stop := errors.New("stop")
	if err := b.Iter(t.Context(), "", func(string) error { return stop }, objstore.WithRecursiveIter()); !errors.Is(err, stop) {
		t.Errorf("a visit that fails: %v", err)
	}
	for name, want := range map[string]string{"file": "text", "a/x": "text", "": "error", "none": "missing"} {
		r, err := b.Get(t.Context(), name)
		if err == nil {
			text, _ := io.ReadAll(r)
			_ = r.Close()
			if string(text) != want {
				t.Errorf("%s: %q", name, text)
			}
			continue
		}
		if want != "error" && want != "missing" || b.IsObjNotFoundErr(err) != (want == "missing") {
			t.Errorf("%q: %v, want %s", name, err, want)
		}
	}
	for _, c := range []struct {
		from, n int64
		want    string
	}{{0, -1, "text"}, {1, 2, "ex"}, {1, -1, "ext"}, {3, 1, "t"}, {0, 4, "text"}, {2, 9, "xt"}} {
		r, err := b.GetRange(t.Context(), "file", c.from, c.n)
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		text, _ := io.ReadAll(r)
		size, err := objstore.TryToGetSize(r)
		_ = r.Close()
		if string(text) != c.want || err != nil || size != int64(len(c.want)) {
			t.Errorf("%+v: %q of size %d (%v)", c, text, size, err)
		}
	}
	gone := errors.New("gone")
	canceled, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	if _, err := b.Get(canceled, "file"); !errors.Is(err, gone) {
		t.Errorf("canceled: %v", err)
	}
	if err := b.Iter(canceled, "", func(string) error { return nil }); err == nil {
		t.Error("a canceled listing")
	}
}
