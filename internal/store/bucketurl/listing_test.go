package bucketurl_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/thanos-io/objstore"

	"github.com/taredb/tare/internal/store/bucketurl"
	"github.com/taredb/tare/internal/testbucket"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/testwait"
)

// openProxied opens a bucket of a server behind a proxy. Its client does not retry.
func openProxied(t *testing.T, proxy *testbucket.Proxy) objstore.Bucket {
	t.Helper()
	file := filepath.Join(t.TempDir(), "bucket.yaml")
	if err := os.WriteFile(file, []byte("type: S3\nconfig:\n  access_key: key\n  secret_key: secret\n  max_retries: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	u, err := bucketurl.Parse("s3://metrics/deep?region=eu-test&path_style=true&insecure=true&endpoint=" + proxy.Addr + "&config_file=" + file)
	if err != nil {
		t.Fatal(err)
	}
	b, err := u.Open()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// bucketCalls are the calls of a bucket that the packages of Tare make. Each returns what it has read.
var bucketCalls = map[string]func(context.Context, objstore.Bucket) (string, error){
	"list":           func(ctx context.Context, b objstore.Bucket) (string, error) { return listed(ctx, b, "") },
	"list-directory": func(ctx context.Context, b objstore.Bucket) (string, error) { return listed(ctx, b, "a") },
	"list-all": func(ctx context.Context, b objstore.Bucket) (string, error) {
		return listed(ctx, b, "", objstore.WithRecursiveIter())
	},
	"get": func(ctx context.Context, b objstore.Bucket) (string, error) { return read(b.Get(ctx, "a/meta.json")) },
	"range": func(ctx context.Context, b objstore.Bucket) (string, error) {
		return read(b.GetRange(ctx, "a/meta.json", 3, 5))
	},
	"head": func(ctx context.Context, b objstore.Bucket) (string, error) {
		a, err := b.Attributes(ctx, "a/meta.json")
		return fmt.Sprint(a.Size), err
	},
}

func listed(ctx context.Context, b objstore.Bucket, dir string, options ...objstore.IterOption) (string, error) {
	var names []string
	err := b.Iter(ctx, dir, func(name string) error { names = append(names, name); return nil }, options...)
	slices.Sort(names)
	return strings.Join(names, " "), err
}

func read(r io.ReadCloser, err error) (string, error) {
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(r)
	return string(text), errors.Join(err, r.Close())
}

// harmless are the faults after which a listing is complete.
var harmless = []testbucket.Fault{testbucket.Reversed, testbucket.Unescaped, testbucket.Stale, testbucket.Future, testbucket.NoETag, testbucket.RangeLess}

// undetectable are the faults that leave a well-formed page of the requested listing.
var undetectable = []testbucket.Fault{testbucket.Lacks, testbucket.Flip}

// TestListingFaults has an S3 server respond wrongly to every call in every way: a listing is complete or an
// error. Objects have checksums of their own, which their readers verify: none is taken for a missing one.
func TestListingFaults(t *testing.T) {
	server, seed := testbucket.NewServer(), testseed.New(t)
	for i := range 60 {
		server.Put(fmt.Sprintf("deep/a/%02d", i), []byte("x"))
		server.Put(fmt.Sprintf("deep/%02d/x", i), []byte("x"))
	}
	server.Put("deep/a/meta.json", []byte(`{"version": 1}`))
	var wg sync.WaitGroup
	for _, fault := range slices.Concat(testbucket.All, testbucket.Lies) {
		proxy := testbucket.StartProxy(t, seed, server, server.Get)
		b := openProxied(t, proxy)
		wg.Go(func() { // the client pauses after failures
			for name, call := range bucketCalls {
				want, err := call(t.Context(), b)
				if err != nil {
					t.Error(err)
				}
				proxy.Break(testbucket.Rules{Kinds: []testbucket.Fault{fault}, Rate: 1})
				limit := time.Hour
				if fault == testbucket.Hang || fault == testbucket.Stall {
					limit = 100 * time.Millisecond // there is no response
				}
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				got, err := call(ctx, b)
				cancel()
				proxy.Heal()
				switch list := strings.HasPrefix(name, "list"); {
				case list && slices.Contains(harmless, fault) && (err != nil || got != want):
					t.Errorf("%s, fault %s: %v, %q", name, fault, err, got)
				case list && err == nil && got != want && !slices.Contains(undetectable, fault):
					t.Errorf("%s, fault %s: an incomplete listing without an error: %q", name, fault, got)
				case err != nil && b.IsObjNotFoundErr(err) && fault != testbucket.Missing && fault != testbucket.NoPage && name != "head":
					t.Errorf("%s, fault %s: counts as a missing object: %v", name, fault, err)
				}
			}
		})
	}
	testwait.Group(t, "the calls", &wg)
}

// TestEmptyObject reads an object without bytes, which the S3 client reports as the end of a response.
func TestEmptyObject(t *testing.T) {
	server := testbucket.NewServer()
	server.Put("deep/empty", nil)
	proxy := testbucket.StartProxy(t, 1, server, server.Get)
	b := openProxied(t, proxy)
	if text, err := read(b.Get(t.Context(), "empty")); text != "" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := read(b.Get(t.Context(), "absent")); !b.IsObjNotFoundErr(err) {
		t.Errorf("an object that does not exist: %v", err)
	}
	server.Put("deep/full", []byte("text"))
	proxy.Break(testbucket.Rules{Kinds: []testbucket.Fault{testbucket.Empty}, Rate: 1, Spare: func(r *http.Request) bool { return r.Method == http.MethodHead }})
	if text, err := read(b.Get(t.Context(), "full")); err == nil {
		t.Errorf("an empty response in place of an object: %q", text)
	}
}
