package bucketurl

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/thanos-io/objstore"
	"github.com/thanos-io/objstore/providers/s3"

	"github.com/taredb/tare/internal/testbucket"
)

func TestParseBucketURL(t *testing.T) {
	const secret = "hunter2"
	dir := t.TempDir()
	config := filepath.Join(dir, "bucket.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("type: S3\nprefix: deep/\nconfig:\n  endpoint: store:9000\n  access_key: id\n  secret_key: " + secret + "\n  bucket_lookup_type: path\n")

	for _, test := range []struct {
		url, text string
		local     string
		want      func(URL) bool
	}{
		{"file:///var/lib/prometheus/", "file:///var/lib/prometheus", "/var/lib/prometheus", nil},
		{"file:///a%20b/../c", "file:///c", "/c", nil},
		{"s3://bkt", "s3://bkt", "", func(b URL) bool { return b.config.Endpoint == "s3.amazonaws.com" && !b.config.Insecure }},
		{"s3://bkt?region=eu-west-1", "s3://bkt?region=eu-west-1", "", func(b URL) bool { return b.config.Endpoint == "s3.eu-west-1.amazonaws.com" }},
		{"s3://bkt/a//b/?endpoint=http://127.0.0.1:9000/", "s3://bkt/a/b?endpoint=http%3A%2F%2F127.0.0.1%3A9000%2F", "", func(b URL) bool {
			return b.config.Endpoint == "127.0.0.1:9000" && b.config.Insecure && b.prefix == "a/b"
		}},
		{"s3://bkt?endpoint=h&path_style=true&insecure=false", "s3://bkt?endpoint=h&insecure=false&path_style=true", "", func(b URL) bool {
			return b.config.BucketLookupType == s3.PathLookup && !b.config.Insecure
		}},
		{"s3://bkt?endpoint=h&path_style=false", "s3://bkt?endpoint=h&path_style=false", "", func(b URL) bool { return b.config.BucketLookupType == s3.VirtualHostLookup }},
		{"s3://bkt?ca_file=/ca&cert_file=/c&key_file=/k&server_name=n&skip_verify=1", "s3://bkt?ca_file=%2Fca&cert_file=%2Fc&key_file=%2Fk&server_name=n&skip_verify=1", "", func(b URL) bool {
			h := b.config.HTTPConfig
			return h.InsecureSkipVerify && h.TLSConfig.CAFile == "/ca" && h.TLSConfig.CertFile == "/c" && h.TLSConfig.KeyFile == "/k" && h.TLSConfig.ServerName == "n"
		}},
		{"s3://bkt?config_file=" + config + "&region=r", "s3://bkt?config_file=" + strings.ReplaceAll(config, "/", "%2F") + "&region=r", "", func(b URL) bool {
			return b.config.Endpoint == "store:9000" && b.config.Region == "r" && b.config.SecretKey == secret && b.prefix == "deep" && b.config.BucketLookupType == s3.PathLookup
		}},
	} {
		u, err := Parse(test.url)
		if err != nil {
			t.Errorf("%s: %v", test.url, err)
			continue
		}
		if u.String() != test.text || u.Local() != test.local {
			t.Errorf("%s: got %s (local %q), want %s (local %q)", test.url, u, u.Local(), test.text, test.local)
		}
		if test.want != nil && !test.want(u) {
			t.Errorf("%s: got %+v", test.url, u.config)
		}
		if strings.Contains(u.String(), secret) {
			t.Errorf("%s: the secret is in %s", test.url, u)
		}
	}

	for name, url := range map[string]string{
		"no scheme": secret, "other scheme": "ftp://" + secret, "no bucket": "s3://?endpoint=" + secret, "relative": "file://" + secret + "/a",
		"parameters": "file:///a?" + secret, "user": "s3://id:" + secret + "@bkt", "unparsable": "s3://id:" + secret + "@b kt",
		"unknown": "s3://bkt?" + secret + "=" + secret, "key": "s3://bkt?secret_key=" + secret, "no bool": "s3://bkt?insecure=" + secret,
		"twice": "s3://bkt?region=" + secret + "&region=" + secret, "endpoint": "s3://bkt?endpoint=" + secret + "@host", "percent": "s3://bkt?a=%zz" + secret,
		"fragment": "s3://bkt#" + secret, "no file": "s3://bkt?config_file=/nowhere",
	} {
		if _, err := Parse(url); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, text := range map[string]string{
		"type":         "type: GCS\nconfig:\n  bucket: " + secret,
		"unknown":      "type: S3\nconfig:\n  sekret: " + secret,
		"kind":         "type: S3\nconfig:\n  insecure: " + secret,
		"no yaml":      "type: S3\n  - " + secret,
		"other bucket": "type: S3\nconfig:\n  bucket: other",
		"top":          "type: S3\n" + secret + ": 1",
	} {
		write(text)
		if _, err := Parse("s3://bkt?config_file=" + config); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("config file with %s: %v", name, err)
		}
	}
}

func TestIdentity(t *testing.T) {
	seen := make(map[[16]byte]string)
	for _, same := range [][]string{
		{"file:///srv/blocks", "file:///srv/blocks/", "file:///srv/x/../blocks"},
		{"file:///srv/blocks/a"},
		{"s3://srv/blocks", "s3://srv/blocks/?skip_verify=1"},
		{"s3://srv/blocks?endpoint=a", "s3://srv/blocks?endpoint=http://a"},
		{"s3://srv/blocks?endpoint=b"},
		{"s3://srv"},
		{"s3://blocks"},
	} {
		first, err := Parse(same[0])
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[first.Identity()]; ok {
			t.Errorf("%s and %s have the same identity", same[0], other)
		}
		seen[first.Identity()] = same[0]
		for _, text := range same[1:] {
			if b, err := Parse(text); err != nil || b.Identity() != first.Identity() {
				t.Errorf("%s and %s have different identities (%v)", same[0], text, err)
			}
		}
	}
}

func TestOpenBucket(t *testing.T) {
	dir := t.TempDir()
	open := func(url string) (objstore.Bucket, error) {
		t.Helper()
		u, err := Parse(url)
		if err != nil {
			t.Fatal(err)
		}
		return u.Open()
	}
	b, err := open("file://" + dir)
	if err != nil {
		t.Fatal(err)
	}
	testbucket.Upload(t, b, "x/y", "text")
	if ok, err := b.Exists(context.Background(), "x/y"); !ok || err != nil {
		t.Error(ok, err)
	}
	if _, err := open("file://" + dir + "/nowhere"); err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Error(err)
	}
	if _, err := open("file://" + dir + "/x/y"); err == nil || !strings.Contains(err.Error(), "not a directory") {
		t.Error(err)
	}
	b, err = open("s3://bkt/pre?endpoint=127.0.0.1:1&insecure=true&path_style=true&region=x")
	if err != nil || b.Name() != "bkt" {
		t.Error(b, err)
	}
	if _, err := open("s3://bkt?endpoint=127.0.0.1:1&ca_file=/nowhere"); err == nil {
		t.Error("a CA file that is not there: no error")
	}
}

// TestCreateBucket creates a directory that only this user can access, and names a missing parent in the
// error.
func TestCreateBucket(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "bucket")
	for range 2 {
		u, err := Parse("file://" + dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := u.Create(); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory: %v, %v", info, err)
	}
	u, err := Parse("file://" + dir + "/a/b")
	if err != nil {
		t.Fatal(err)
	}
	if err := u.Create(); err == nil || !strings.Contains(err.Error(), "run mkdir -p "+dir+"/a,") {
		t.Errorf("without a parent: %v", err)
	}
}

// FuzzParse checks that the text of an accepted URL parses to the same URL, and that errors do not quote a
// rejected one.
func FuzzParse(f *testing.F) {
	for _, url := range []string{"file:///a", "s3://b/p?endpoint=h:1&insecure=true&path_style=0&region=r", "s3://u:secretword@b", "s3://b?secret_key=secretword", "s3://b?a=%zz", "//", ""} {
		f.Add(url)
	}
	f.Fuzz(func(t *testing.T, url string) {
		if strings.Contains(url, "file=") {
			t.Skip("reads files")
		}
		u, err := Parse(url)
		if err != nil {
			if strings.Contains(url, "secretword") && strings.Contains(err.Error(), "secretword") {
				t.Errorf("%q is repeated: %v", url, err)
			}
			return
		}
		again, err := Parse(u.String())
		if err != nil || again.String() != u.String() || again.dir != u.dir || again.bucket != u.bucket || again.prefix != u.prefix || again.config.Endpoint != u.config.Endpoint {
			t.Errorf("%q is shown as %q, which is %+v, %v", url, u, again, err)
		}
	})
}

func ExampleParse() {
	u, err := Parse("s3://metrics/tsdb/?endpoint=minio.example.net:9000&path_style=true")
	fmt.Println(u, err)
	_, err = Parse("s3://id:secret@metrics")
	fmt.Println(err)
	// Output:
	// s3://metrics/tsdb?endpoint=minio.example.net%3A9000&path_style=true <nil>
	// a bucket URL holds no credentials: give them by AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a shared credentials file, or config_file=
}

// TestMissing lists a bucket of servers that respond with an error.
func TestMissing(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	for code, missing := range map[string]bool{"NoSuchBucket": true, "AccessDenied": false, "NoSuchKey": false} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprintf(w, "<Error><Code>%s</Code><Message>no</Message></Error>", code)
		}))
		defer s.Close()
		u, err := Parse("s3://metrics/tsdb?insecure=true&path_style=true&region=eu-test&endpoint=" + strings.TrimPrefix(s.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		b, err := u.Open()
		if err != nil {
			t.Fatal(err)
		}
		err = b.Iter(t.Context(), "", func(string) error { return nil })
		if err == nil || Missing(fmt.Errorf("list: %w", err)) != missing {
			t.Errorf("%s: %v is a missing bucket: %t, want %t", code, err, !missing, missing)
		}
	}
}
