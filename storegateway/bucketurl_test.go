package storegateway

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/thanos-io/objstore"
	"github.com/thanos-io/objstore/providers/s3"
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
		want      func(BucketURL) bool
	}{
		{"file:///var/lib/prometheus/", "file:///var/lib/prometheus", "/var/lib/prometheus", nil},
		{"file:///a%20b/../c", "file:///c", "/c", nil},
		{"s3://bkt", "s3://bkt", "", func(b BucketURL) bool { return b.config.Endpoint == "s3.amazonaws.com" && !b.config.Insecure }},
		{"s3://bkt?region=eu-west-1", "s3://bkt?region=eu-west-1", "", func(b BucketURL) bool { return b.config.Endpoint == "s3.eu-west-1.amazonaws.com" }},
		{"s3://bkt/a//b/?endpoint=http://127.0.0.1:9000/", "s3://bkt/a/b?endpoint=http%3A%2F%2F127.0.0.1%3A9000%2F", "", func(b BucketURL) bool {
			return b.config.Endpoint == "127.0.0.1:9000" && b.config.Insecure && b.prefix == "a/b"
		}},
		{"s3://bkt?endpoint=h&path_style=true&insecure=false", "s3://bkt?endpoint=h&insecure=false&path_style=true", "", func(b BucketURL) bool {
			return b.config.BucketLookupType == s3.PathLookup && !b.config.Insecure
		}},
		{"s3://bkt?endpoint=h&path_style=false", "s3://bkt?endpoint=h&path_style=false", "", func(b BucketURL) bool { return b.config.BucketLookupType == s3.VirtualHostLookup }},
		{"s3://bkt?ca_file=/ca&cert_file=/c&key_file=/k&server_name=n&skip_verify=1", "s3://bkt?ca_file=%2Fca&cert_file=%2Fc&key_file=%2Fk&server_name=n&skip_verify=1", "", func(b BucketURL) bool {
			h := b.config.HTTPConfig
			return h.InsecureSkipVerify && h.TLSConfig.CAFile == "/ca" && h.TLSConfig.CertFile == "/c" && h.TLSConfig.KeyFile == "/k" && h.TLSConfig.ServerName == "n"
		}},
		{"s3://bkt?config_file=" + config + "&region=r", "s3://bkt?config_file=" + strings.ReplaceAll(config, "/", "%2F") + "&region=r", "", func(b BucketURL) bool {
			return b.config.Endpoint == "store:9000" && b.config.Region == "r" && b.config.SecretKey == secret && b.prefix == "deep" && b.config.BucketLookupType == s3.PathLookup
		}},
	} {
		u, err := ParseBucketURL(test.url)
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
		"no scheme": secret, "other scheme": "gs://" + secret, "no bucket": "s3://?endpoint=" + secret, "relative": "file://" + secret + "/a",
		"parameters": "file:///a?" + secret, "user": "s3://id:" + secret + "@bkt", "unparsable": "s3://id:" + secret + "@b kt",
		"unknown": "s3://bkt?" + secret + "=" + secret, "key": "s3://bkt?secret_key=" + secret, "no bool": "s3://bkt?insecure=" + secret,
		"twice": "s3://bkt?region=" + secret + "&region=" + secret, "endpoint": "s3://bkt?endpoint=" + secret + "@host", "percent": "s3://bkt?a=%zz" + secret,
		"fragment": "s3://bkt#" + secret, "no file": "s3://bkt?config_file=/nowhere",
	} {
		if _, err := ParseBucketURL(url); err == nil || strings.Contains(err.Error(), secret) {
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
		if _, err := ParseBucketURL("s3://bkt?config_file=" + config); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("config file with %s: %v", name, err)
		}
	}
}

func TestOpenBucket(t *testing.T) {
	dir := t.TempDir()
	open := func(url string) (objstore.Bucket, error) {
		t.Helper()
		u, err := ParseBucketURL(url)
		if err != nil {
			t.Fatal(err)
		}
		return u.Open()
	}
	b, err := open("file://" + dir)
	if err != nil {
		t.Fatal(err)
	}
	upload(t, b, "x/y", "text")
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

// TestCreateBucket creates a directory for the process alone, and says which parent is missing.
func TestCreateBucket(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "bucket")
	for range 2 {
		u, err := ParseBucketURL("file://" + dir)
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
	u, err := ParseBucketURL("file://" + dir + "/a/b")
	if err != nil {
		t.Fatal(err)
	}
	if err := u.Create(); err == nil || !strings.Contains(err.Error(), "run mkdir -p "+dir+"/a,") {
		t.Errorf("without a parent: %v", err)
	}
}
