package bucketurl

import (
	"encoding/xml"
	"net/url"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/taredb/tare/internal/alloctest"
)

// FuzzS3Page parses any response to a list request. A page that is accepted has the names that the client's own decoder finds, and states
// whether it is the last one.
func FuzzS3Page(f *testing.F) {
	const page = `<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>b</Name><Prefix>p/</Prefix><KeyCount>2</KeyCount><IsTruncated>false</IsTruncated>` +
		`<Contents><Key>p/a%20b</Key></Contents><CommonPrefixes><Prefix>p/c/</Prefix></CommonPrefixes><EncodingType>url</EncodingType></ListBucketResult>`
	for _, text := range []string{
		page, page + "x", "<Error><Code>AccessDenied</Code></Error>", "<html></html>", "",
		`<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken></ListBucketResult>`,
	} {
		f.Add([]byte(text), "list-type=2&prefix=p/&delimiter=/")
		f.Add([]byte(text), "prefix=p/&marker=p/a&delimiter=/")
	}
	f.Fuzz(func(t *testing.T, body []byte, query string) {
		defer alloctest.Bounded(t, 32<<20)()
		q, err := url.ParseQuery(query)
		if err != nil {
			t.Skip()
		}
		p, err := parseS3Page(q, body)
		if err != nil {
			return
		}
		var want minio.ListBucketV2Result
		if err := xml.Unmarshal(body, &want); err != nil {
			return // the client refuses it too
		}
		if n := len(want.Contents) + len(want.CommonPrefixes); n != len(p.names) {
			t.Errorf("%d names, the client finds %d", len(p.names), n)
		}
		if want.IsTruncated != (p.next != "") && s3Token(q) != "marker" {
			t.Errorf("the next page is %q, the client finds another one: %t", p.next, want.IsTruncated)
		}
	})
}
