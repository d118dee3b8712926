//go:build e2e

package e2e

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// rawMiB is the memory that malformed requests may take of a store without blocks.
const rawMiB = 200

// statusLine is the first line of a response.
var statusLine = regexp.MustCompile(`(?m)^HTTP/1\.[01] (\d+)`)

// A rawRequest is a request as an attacker sends it. HOST stands for the address of the server.
type rawRequest struct {
	name, text string
	body       []byte
	want       []int  // statuses, of which the first response has one
	never      string // a text that no response contains
}

// rawRequests are smuggled, disguised and oversized requests.
func rawRequests(t *testing.T) []rawRequest {
	t.Helper()
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	_, err := io.CopyN(z, zeros{}, 200<<20)
	must(t, err)
	must(t, z.Close())
	snappy := append([]byte{0xff, 0xff, 0xff, 0xff, 0x0f}, make([]byte, 10)...)
	nested := []byte("query=" + strings.Repeat("(", 200_000))
	var headers strings.Builder
	for i := range 200_000 {
		fmt.Fprintf(&headers, "X%d: y\r\n", i)
	}
	get := func(path, more string) string {
		return "GET " + path + " HTTP/1.1\r\n" + more + "Connection: close\r\n\r\n"
	}
	post := func(path, more string, body []byte) string {
		return "POST " + path + " HTTP/1.1\r\nHost: HOST\r\n" + more + "Content-Length: " + strconv.Itoa(len(body)) + "\r\nConnection: close\r\n\r\n"
	}
	const form = "Content-Type: application/x-www-form-urlencoded\r\n"
	return []rawRequest{
		{"two different lengths", "POST /api/v1/query HTTP/1.1\r\nHost: HOST\r\nContent-Length: 6\r\nContent-Length: 7\r\n\r\n1234567", nil, []int{400}, "ready"},
		{"an unknown transfer encoding", "POST /api/v1/query HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\nGET /-/ready HTTP/1.1\r\nHost: HOST\r\n\r\n", nil, []int{501}, "ready"},
		{"a space before the colon", "POST /api/v1/query HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\nGET /-/ready HTTP/1.1\r\nHost: HOST\r\n\r\n", nil, []int{400}, "ready"},
		{"two hosts", "GET /-/ready HTTP/1.1\r\nHost: HOST\r\nHost: evil.example\r\n\r\n", nil, []int{400}, ""},
		{"a host in the path", get("http://evil.example/api/v1/labels", "Host: HOST\r\n"), nil, []int{403}, "success"},
		{"a host after an address", get("/api/v1/labels", "Host: HOST@evil.example\r\n"), nil, []int{400}, "success"},
		{"a host that begins with localhost", get("/api/v1/labels", "Host: localhost.evil.example\r\n"), nil, []int{403}, "success"},
		{"a host that begins with an address", get("/api/v1/labels", "Host: 127.0.0.1.evil.example\r\n"), nil, []int{403}, "success"},
		{"an origin of no site", post("/api/v1/labels", "Origin: null\r\n", nil), nil, []int{403}, "success"},
		{"a preflight of another site", "OPTIONS /api/v1/query HTTP/1.1\r\nHost: HOST\r\nOrigin: http://evil.example\r\nAccess-Control-Request-Method: POST\r\nConnection: close\r\n\r\n", nil, []int{403}, "Access-Control-Allow"},
		{"a path that is another host", get("//evil.example/..", "Host: HOST\r\n"), nil, []int{301, 307, 308, 404}, "Location: //"},
		{"a path out of the tree", get("/static/..%2f..%2f..%2fetc/passwd", "Host: HOST\r\n"), nil, []int{404}, "root:"},
		{"TRACE", "TRACE / HTTP/1.1\r\nHost: HOST\r\nCookie: c=secret\r\nConnection: close\r\n\r\n", nil, []int{405}, "secret"},
		{"CONNECT", "CONNECT evil.example:80 HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n", nil, []int{403, 405}, "200"},
		{"a script in a query", get("/api/v1/query?query=%3Cscript%3E", "Host: HOST\r\n"), nil, []int{400}, "text/html"},
		{"an upgrade to clear HTTP/2", get("/-/ready", "Host: HOST\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"), nil, []int{200}, "101 "},
		{"200 MiB, compressed", post("/api/v1/query", form+"Content-Encoding: gzip\r\n", bomb.Bytes()), bomb.Bytes(), []int{400, 413, 415}, "success"},
		{"4 GiB, as the header of the compression says", post("/api/v1/read", "Content-Type: application/x-protobuf\r\nContent-Encoding: snappy\r\n", snappy), snappy, []int{400, 413}, "success"},
		{"200,000 headers", "GET /-/ready HTTP/1.1\r\nHost: HOST\r\n" + headers.String() + "\r\n", nil, []int{431}, "ready"},
		{"a regular expression of 10^15 repetitions", get("/api/v1/series?match[]={a%3D~%22((((a{0,1000}){0,1000}){0,1000}))%22}", "Host: HOST\r\n"), nil, []int{400}, "success"},
		{"200,000 brackets", post("/api/v1/query", form, nested), nested, []int{400}, "success"},
	}
}

// zeros is an endless reader.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// TestRawRequests sends smuggled, disguised and oversized requests to a store whose bucket also has a pipe and a device in
// the place of objects: each is refused, the store responds to the next request, and its memory is bounded.
func TestRawRequests(t *testing.T) {
	dir := t.TempDir()
	for name, make := range map[string]func(string) error{
		"01ARZ3NDEKTSV4RRFFQ69G5FAV": func(meta string) error { return unix.Mkfifo(meta, 0o600) },
		"01ARZ3NDEKTSV4RRFFQ69G5FAW": func(meta string) error { return os.Symlink("/dev/zero", meta) },
		"01ARZ3NDEKTSV4RRFFQ69G5FAX": func(meta string) error { return os.Symlink("/etc/passwd", meta) },
	} {
		must(t, os.Mkdir(filepath.Join(dir, name), 0o700))
		must(t, make(filepath.Join(dir, name, "meta.json")))
	}
	s := startStoreAPI(t, dir) // it is ready: none of them is waited for
	addr := strings.TrimPrefix(s.http, "http://")
	for _, r := range rawRequests(t) {
		got := exchangeRaw(t, addr, append([]byte(strings.ReplaceAll(r.text, "HOST", addr)), r.body...))
		m := statusLine.FindStringSubmatch(got)
		code := 0
		if m != nil {
			code, _ = strconv.Atoi(m[1])
		}
		if !slices.Contains(r.want, code) || r.never != "" && strings.Contains(got, r.never) {
			t.Errorf("%s: status %d, want %v, without %q: %.300s", r.name, code, r.want, r.never, got)
		}
		if code, _ := get(t, s.http+"/-/ready"); code != 200 {
			t.Fatalf("after %s the store is not ready: %d", r.name, code)
		}
	}
	if mib := residentMiB(t, s.cmd.Process.Pid); mib > rawMiB {
		t.Errorf("the store uses %d MiB", mib)
	}
	_, blocks := get(t, s.http+"/api/v1/status/blocks")
	if strings.Contains(blocks, "root:") || strings.Count(blocks, `"reason"`) < 3 {
		t.Errorf("skipped blocks: %.2000s", blocks)
	}
}

// exchangeRaw sends bytes and returns all that the server sends until it closes the connection or stops to send.
func exchangeRaw(t *testing.T, addr string, text []byte) string {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	must(t, err)
	defer conn.Close()
	must(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
	_, _ = conn.Write(text) // a server may close the connection before it has read all
	got, _ := io.ReadAll(io.LimitReader(conn, 1<<20))
	return string(got)
}
