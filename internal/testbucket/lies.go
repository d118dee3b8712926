package testbucket

import (
	"bytes"
	"compress/gzip"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The faults of [Lies]: complete, well-formed responses that are not the response to the request.
const (
	Portal        Fault = "portal"         // 200 and the sign-in page of a proxy
	NoContent     Fault = "204"            // 204 without a body
	SignIn        Fault = "302"            // a redirect to a sign-in page
	Moved         Fault = "301"            // PermanentRedirect: another region
	MovedOnce     Fault = "307"            // TemporaryRedirect without a location
	BadRequest    Fault = "400"            // ExpiredToken
	Unauthorized  Fault = "401"            // a proxy's
	Skewed        Fault = "skewed"         // 403, RequestTimeTooSkewed: the clocks differ
	Signature     Fault = "signature"      // 403, SignatureDoesNotMatch
	NoBucket      Fault = "no-bucket"      // 404, NoSuchBucket
	NoPage        Fault = "404-html"       // 404 and a page of a web server
	Unsatisfiable Fault = "416"            // InvalidRange
	BadGateway    Fault = "502"            // a proxy's page
	Timeout       Fault = "504"            // a proxy's page
	ErrorOK       Fault = "error-200"      // 200 and <Error>
	DeniedOK      Fault = "denied-200"     // 200 and <Error> AccessDenied
	ErrorAfter    Fault = "error-after"    // a listing, then <Error>
	Empty         Fault = "empty"          // 200 and an empty body
	JSON          Fault = "json"           // 200 and JSON
	OtherRoot     Fault = "other-root"     // the list of all buckets
	Twice         Fault = "twice"          // the body, two times
	UTF16         Fault = "utf-16"         // XML that states another encoding
	Gzip          Fault = "gzip"           // the body compressed, undeclared
	OtherBucket   Fault = "other-bucket"   // a listing of another bucket
	OtherPrefix   Fault = "other-prefix"   // a listing of another prefix
	NothingThere  Fault = "nothing-there"  // an empty listing of another bucket
	NoEnd         Fault = "no-end"         // a listing without IsTruncated
	EndsEarly     Fault = "ends-early"     // IsTruncated is false, and there is a continuation
	NoToken       Fault = "no-token"       // IsTruncated is true, and there is no continuation
	SameToken     Fault = "same-token"     // the continuation is that of the first page, on every page
	FirstAgain    Fault = "first-again"    // the first page in place of later ones
	LaterError    Fault = "later-error"    // later pages are <Error> with status 200
	LaterPortal   Fault = "later-portal"   // later pages are a sign-in page
	LaterEmpty    Fault = "later-empty"    // later pages are the end of another bucket's listing
	FewerKeys     Fault = "fewer-keys"     // a listing without its last names, whose KeyCount counts them
	Reversed      Fault = "reversed"       // the names of a page in reverse order
	Unescaped     Fault = "unescaped"      // EncodingType url and names that are not encoded
	RangeShort    Fault = "range-short"    // 206 with fewer bytes
	RangeLong     Fault = "range-long"     // 206 with more bytes
	RangeShifted  Fault = "range-shifted"  // 206 with the bytes of another offset
	Zeros         Fault = "zeros"          // zeros in place of the bytes
	Stale         Fault = "stale"          // Last-Modified and Date of 1970
	Future        Fault = "future"         // Last-Modified and Date of 2100
	NoETag        Fault = "no-etag"        // without ETag and Last-Modified
	LongHead      Fault = "wrong-size"     // HEAD states another size
	XMLBomb       Fault = "entities"       // XML with undefined entities
	OtherVersion  Fault = "other-response" // 200 and the response to another operation
)

// Lies lists these faults.
var Lies = []Fault{
	Portal, NoContent, SignIn, Moved, MovedOnce, BadRequest, Unauthorized, Skewed, Signature, NoBucket, NoPage, Unsatisfiable, BadGateway, Timeout,
	ErrorOK, DeniedOK, ErrorAfter, Empty, JSON, OtherRoot, Twice, UTF16, Gzip, OtherBucket, OtherPrefix, NothingThere, NoEnd, EndsEarly, NoToken, SameToken,
	FirstAgain, LaterError, LaterPortal, LaterEmpty, FewerKeys, Reversed, Unescaped, RangeShort, RangeLong, RangeShifted, Zeros, Stale, Future, NoETag,
	LongHead, XMLBomb, OtherVersion,
}

const (
	signInPage = "<!DOCTYPE html><html><head><title>Sign in</title></head><body><form><input name=user></form></body></html>"
	errorBody  = xml.Header + "<Error><Code>InternalError</Code><Message>We encountered an internal error.</Message></Error>"
	deniedBody = xml.Header + "<Error><Code>AccessDenied</Code><Message>Access Denied.</Message></Error>"
	otherList  = xml.Header + `<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>archive</Name><Prefix></Prefix><KeyCount>0</KeyCount><MaxKeys>1000</MaxKeys><IsTruncated>false</IsTruncated></ListBucketResult>`
)

// fixed are the lies that do not depend on the request.
var fixed = map[Fault]struct {
	status     int
	kind, body string
}{
	Portal:        {200, "text/html", signInPage},
	NoContent:     {204, "", ""},
	SignIn:        {302, "text/html", signInPage},
	Moved:         {301, "application/xml", xml.Header + "<Error><Code>PermanentRedirect</Code><Endpoint>127.0.0.1:9</Endpoint></Error>"},
	MovedOnce:     {307, "application/xml", xml.Header + "<Error><Code>TemporaryRedirect</Code></Error>"},
	BadRequest:    {400, "application/xml", xml.Header + "<Error><Code>ExpiredToken</Code></Error>"},
	Unauthorized:  {401, "text/html", signInPage},
	Skewed:        {403, "application/xml", xml.Header + "<Error><Code>RequestTimeTooSkewed</Code><Message>The difference between the request time and the server's time is too large.</Message></Error>"},
	Signature:     {403, "application/xml", xml.Header + "<Error><Code>SignatureDoesNotMatch</Code></Error>"},
	NoBucket:      {404, "application/xml", xml.Header + "<Error><Code>NoSuchBucket</Code></Error>"},
	NoPage:        {404, "text/html", "<html>not found</html>"},
	Unsatisfiable: {416, "application/xml", xml.Header + "<Error><Code>InvalidRange</Code></Error>"},
	BadGateway:    {502, "text/html", "<html>bad gateway</html>"},
	Timeout:       {504, "text/html", "<html>timeout</html>"},
	ErrorOK:       {200, "application/xml", errorBody},
	DeniedOK:      {200, "application/xml", deniedBody},
	Empty:         {200, "", ""},
	JSON:          {200, "application/json", `{"status":"ok","items":[]}`},
	OtherRoot:     {200, "application/xml", xml.Header + "<ListAllMyBucketsResult><Buckets></Buckets></ListAllMyBucketsResult>"},
	NothingThere:  {200, "application/xml", otherList},
	XMLBomb:       {200, "application/xml", `<!DOCTYPE x [<!ENTITY a "b">]><ListBucketResult><Name>&b;</Name></ListBucketResult>`},
	OtherVersion:  {200, "application/xml", xml.Header + "<CopyObjectResult><ETag>x</ETag></CopyObjectResult>"},
	LaterError:    {200, "application/xml", errorBody},
	LaterPortal:   {200, "text/html", signInPage},
	LaterEmpty:    {200, "application/xml", otherList},
}

// onlyLists are the lies that apply to list requests only, and onlyLater to those for later pages.
var (
	onlyLists = []Fault{ErrorAfter, OtherBucket, OtherPrefix, NothingThere, NoEnd, EndsEarly, NoToken, SameToken, FewerKeys, Reversed, Unescaped, XMLBomb}
	onlyLater = []Fault{FirstAgain, LaterError, LaterPortal, LaterEmpty}
	onlyRange = []Fault{RangeShort, RangeLong, RangeShifted, Unsatisfiable}
)

func (f Fault) liesTo(r *http.Request) bool {
	q := r.URL.Query()
	switch list := q.Get("list-type") != ""; {
	case slices.Contains(onlyLists, f):
		return list
	case slices.Contains(onlyLater, f):
		return list && q.Has("continuation-token")
	case slices.Contains(onlyRange, f):
		return r.Header.Get("Range") != ""
	case f == LongHead:
		return r.Method == http.MethodHead
	case f == Zeros, f == Stale, f == Future, f == NoETag:
		return !list
	}
	return true
}

// lie sends the response of a lie. It returns false if the fault is none.
func (p *Proxy) lie(c *choice, w http.ResponseWriter, r *http.Request) bool {
	if !slices.Contains(Lies, c.fault) {
		return false
	}
	rec := &recorded{header: make(http.Header), code: http.StatusOK}
	if l, ok := fixed[c.fault]; ok {
		rec.code = l.status
		rec.header.Set("Content-Type", l.kind)
		_, _ = rec.body.WriteString(l.body) // never fails
		if c.fault == SignIn {
			rec.header.Set("Location", "http://"+p.Addr+"/sign-in")
		}
		rec.send(w, bodyFor(r, rec.body.Bytes()), rec.body.Len())
		return true
	}
	if c.fault == FirstAgain {
		r = r.Clone(r.Context())
		q := r.URL.Query()
		q.Del("continuation-token")
		r.URL.RawQuery = q.Encode()
	}
	if c.fault == RangeShifted {
		r = r.Clone(r.Context())
		var from, to int
		if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &from, &to); err == nil && from > 0 {
			r.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", from-1, to-1))
		}
	}
	p.next.ServeHTTP(rec, r)
	if rec.code >= http.StatusMultipleChoices {
		rec.send(w, bodyFor(r, rec.body.Bytes()), rec.body.Len())
		return true
	}
	body := c.changed(rec)
	if r.Method == http.MethodHead {
		rec.send(w, nil, 0)
		return true
	}
	rec.send(w, body, len(body))
	return true
}

// bodyFor returns a body, or nil for a HEAD request.
func bodyFor(r *http.Request, body []byte) []byte {
	if r.Method == http.MethodHead {
		return nil
	}
	return body
}

var (
	names     = regexp.MustCompile(`(?s)(<Contents>.*?</Contents>|<CommonPrefixes>.*?</CommonPrefixes>)`)
	truncated = regexp.MustCompile(`<IsTruncated>.*?</IsTruncated>`)
	next      = regexp.MustCompile(`<NextContinuationToken>.*?</NextContinuationToken>`)
	named     = regexp.MustCompile(`<Name>.*?</Name>`)
	prefixed  = regexp.MustCompile(`<Prefix>[^<]*</Prefix><KeyCount>`)
)

// changed returns the changed body of a response, and changes its header.
func (c *choice) changed(rec *recorded) []byte {
	body := bytes.Clone(rec.body.Bytes())
	replace := func(re *regexp.Regexp, by string) []byte { return re.ReplaceAll(body, []byte(by)) }
	switch c.fault {
	case ErrorAfter:
		return append(body, errorBody...)
	case Twice:
		return append(body, body...)
	case UTF16:
		return bytes.Replace(body, []byte(`encoding="UTF-8"`), []byte(`encoding="UTF-16"`), 1)
	case Gzip:
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write(body) // a buffer never fails
		_ = z.Close()
		return b.Bytes()
	case OtherBucket:
		return replace(named, "<Name>archive</Name>")
	case OtherPrefix:
		return replace(prefixed, "<Prefix>elsewhere/</Prefix><KeyCount>")
	case NoEnd:
		return replace(truncated, "")
	case EndsEarly:
		return next.ReplaceAll(replace(truncated, "<IsTruncated>false</IsTruncated>"), []byte("<NextContinuationToken>x</NextContinuationToken>"))
	case NoToken:
		body = replace(next, "")
		return replace(truncated, "<IsTruncated>true</IsTruncated>")
	case SameToken:
		body = replace(next, "")
		return replace(truncated, "<IsTruncated>true</IsTruncated><NextContinuationToken>!</NextContinuationToken>")
	case FewerKeys:
		if all := names.FindAllIndex(body, -1); len(all) > 0 {
			last := all[len(all)-1]
			return slices.Delete(body, last[0], last[1])
		}
	case Reversed:
		all := names.FindAll(body, -1)
		slices.Reverse(all)
		return names.ReplaceAllFunc(body, func([]byte) []byte { e := all[0]; all = all[1:]; return e })
	case Unescaped:
		return replace(truncated, "$0<EncodingType>url</EncodingType>")
	case RangeShort:
		rec.header.Del("Content-Range")
		return body[:len(body)/2]
	case RangeLong:
		return append(body, body...)
	case Zeros:
		clear(body)
	case Stale, Future:
		at := time.Unix(0, 0)
		if c.fault == Future {
			at = time.Unix(4_102_444_800, 0)
		}
		rec.header.Set("Last-Modified", at.UTC().Format(http.TimeFormat))
		rec.header.Set("Date", at.UTC().Format(http.TimeFormat))
	case NoETag:
		rec.header.Del("ETag")
		rec.header.Del("Last-Modified")
	case LongHead:
		n, _ := strconv.Atoi(rec.header.Get("Content-Length"))
		rec.header.Set("Content-Length", strconv.Itoa(n+7))
	}
	return body
}

// Key returns the key of a request's object, "" for a list request.
func Key(u *url.URL) string {
	_, key, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
	return key
}
