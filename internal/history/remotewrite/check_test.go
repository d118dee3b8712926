package remotewrite

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCheck accepts a receiver whose certificates can be read, and one that is off.
func TestCheck(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	to := &url.URL{Scheme: "https", Host: "receiver"}
	for _, c := range []struct {
		name string
		r    Receiver
		want string
	}{
		{"off", Receiver{CAFile: filepath.Join(dir, "none")}, ""},
		{"the system's authorities", Receiver{URL: to}, ""},
		{"own authorities", Receiver{URL: to, CAFile: write("good", good)}, ""},
		{"no file", Receiver{URL: to, CAFile: filepath.Join(dir, "none")}, "no such file"},
		{"a directory", Receiver{URL: to, CAFile: dir}, "is a directory"},
		{"no certificate", Receiver{URL: to, CAFile: write("bad", "no PEM")}, "bad has no certificate in PEM"},
		{"an empty file", Receiver{URL: to, CAFile: write("empty", "")}, "empty has no certificate in PEM"},
	} {
		err := c.r.Check()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}
