package httpclient

import (
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/testwait"
)

// TestNew accepts addresses and accounts, and refuses each other form with its error, which has no part of a password.
func TestNew(t *testing.T) {
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("ann:secret"))
	wantClear := &ClearTextError{"db1:80"}
	for _, c := range []struct {
		o    Options
		want error
		auth string
		host string
	}{
		{o: Options{URL: "db1:80"}, host: "db1:80"},
		{o: Options{URL: "[::1]:80"}, host: "[::1]:80"},
		{o: Options{URL: "http://db1"}, host: "db1"},
		{o: Options{URL: "https://db1/tare"}, host: "db1"},
		{o: Options{URL: "db1"}, want: ErrURL},
		{o: Options{URL: ""}, want: ErrURL},
		{o: Options{URL: ":80"}, want: ErrURL},
		{o: Options{URL: "http://:80"}, want: ErrURL},
		{o: Options{URL: "ftp://db1"}, want: ErrURL},
		{o: Options{URL: "mysql://db1:80"}, want: ErrURL},
		{o: Options{URL: "http://db1?x=1"}, want: ErrURL},
		{o: Options{URL: "http://db1#x"}, want: ErrURL},
		{o: Options{URL: "http://secret%zz@db1"}, want: ErrURL},
		{o: Options{URL: "https://ann:secret@db1"}, auth: basic, host: "db1"},
		{o: Options{URL: "https://db1", User: "ann", Password: "secret"}, auth: basic, host: "db1"},
		{o: Options{URL: "https://db1", Token: "secret"}, auth: "Bearer secret", host: "db1"},
		{o: Options{URL: "https://db1", User: "ann"}, want: ErrPair},
		{o: Options{URL: "https://db1", Password: "secret"}, want: ErrPair},
		{o: Options{URL: "https://ann@db1"}, want: ErrPair},
		{o: Options{URL: "https://db1", User: "ann", Password: "secret", Token: "secret"}, want: ErrBoth},
		{o: Options{URL: "http://ann:secret@db1:80"}, want: wantClear},
		{o: Options{URL: "db1:80", Token: "secret"}, want: wantClear},
		{o: Options{URL: "http://127.0.0.1:80", Token: "secret"}, auth: "Bearer secret", host: "127.0.0.1:80"},
		{o: Options{URL: "127.9.9.9:80", Token: "secret"}, auth: "Bearer secret", host: "127.9.9.9:80"},
		{o: Options{URL: "[::1]:80", Token: "secret"}, auth: "Bearer secret", host: "[::1]:80"},
		{o: Options{URL: "localhost:80", Token: "secret"}, auth: "Bearer secret", host: "localhost:80"},
	} {
		got, err := New(c.o)
		if _, clear := c.want.(*ClearTextError); clear { //nolint:errorlint // what the case has, not wrapped
			if e, ok := errors.AsType[*ClearTextError](err); !ok || *e != *wantClear {
				t.Errorf("%+v: %v, want %v", c.o, err, wantClear)
			}
		} else if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%+v: %v, want %v", c.o, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v: the error is %v", c.o, err)
		}
		if err == nil && (got.authorization != c.auth || got.Host() != c.host || strings.Contains(got.base.String(), "secret")) {
			t.Errorf("%+v: %q to %s (%s)", c.o, got.authorization, got.Host(), got.base)
		}
	}
}

// TestDo sends a method, path, body and account, and closes its connection.
func TestDo(t *testing.T) {
	closed := make(chan struct{}, 10)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = io.WriteString(w, strings.Join([]string{r.Method, r.URL.String(), r.Header.Get("Content-Type"), r.Header.Get("Authorization"), string(body)}, "|"))
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			closed <- struct{}{}
		}
	}
	server.Start()
	defer server.Close()
	c, err := New(Options{URL: server.URL + "/tare/", Token: "x"})
	if err != nil {
		t.Fatal(err)
	}
	for want, body := range map[string][]byte{"GET|/tare/a?b=1||Bearer x|": nil, `GET|/tare/a?b=1|application/json|Bearer x|{}`: []byte("{}")} {
		if got, err := c.Do(t.Context(), http.MethodGet, "/a?b=1", body, 1<<10); err != nil || string(got) != want {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
	if _, err := c.Do(t.Context(), "a method", "/a", nil, 1<<10); err == nil || !strings.Contains(err.Error(), "request /a of "+c.Host()) {
		t.Errorf("a wrong method: %v", err)
	}
	c.Close()
	testwait.Receive(t, "the idle connection to be closed", closed)
}

// TestRefusals has the server's reason in errors: that of JSON, the first line of a text, none of a page.
func TestRefusals(t *testing.T) {
	long := strings.Repeat("x", maxReason+10)
	for _, r := range []struct {
		code        int
		credentials string
		body, want  string
	}{
		{403, "", `{"error": "no role"}`, "HOST refused the request (403): no role"},
		{403, "", "no role\nask ann", "HOST refused the request (403): no role"},
		{403, "", "", "HOST refused the request (403)"},
		{401, "", "x", "HOST requires an account (401)"},
		{401, "--user", "x", "HOST requires an account (401): use --user"},
		{404, "", "<html>", "HOST returned 404 Not Found"},
		{500, "", " <html>", "HOST returned 500 Internal Server Error"},
		{500, "", `{"error": ""}`, `HOST returned 500 Internal Server Error: {"error": ""}`},
		{500, "", `{"error": "` + long + `"}`, "HOST returned 500 Internal Server Error: " + long[:maxReason]},
		{500, "", long, "HOST returned 500 Internal Server Error: " + long[:maxRefusal]},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(r.code)
			_, _ = io.WriteString(w, r.body)
		}))
		c, err := New(Options{URL: server.URL, Credentials: r.credentials})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Do(t.Context(), http.MethodGet, "/x", nil, 10<<10)
		e, ok := errors.AsType[*StatusError](err)
		if want := strings.ReplaceAll(r.want, "HOST", c.Host()); !ok || e.Code != r.code || err.Error() != want {
			t.Errorf("%d %q: %v, want %s", r.code, r.body, err, want)
		}
		c.Close()
		server.Close()
	}
}
