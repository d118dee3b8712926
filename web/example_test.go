package web_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/taredb/tare/internal/access"
	"github.com/taredb/tare/web"
)

// A server has the paths of its options and of its routes. Each route declares the role that it requires.
func Example() {
	ready := false
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
	server := web.New(web.Options{
		Title:    "example",
		Gatherer: prometheus.NewRegistry(),
		Ready: func(context.Context) error {
			if !ready {
				return errors.New("the backend is unreachable")
			}
			return nil
		},
		Routes: []web.Route{web.NewRoute(access.For(access.Viewer), "GET /hello", hello).Listed("/hello", "A greeting")},
		Log:    slog.New(slog.DiscardHandler),
	})
	handler := server.Handler()
	get := func(path string) {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil))
		fmt.Println(path, w.Code, strings.TrimSpace(w.Body.String()))
	}

	get("/-/healthy")
	get("/-/ready")
	ready = true
	get("/-/ready")
	get("/hello")
	// Output:
	// /-/healthy 200 healthy
	// /-/ready 503 not ready: the backend is unreachable
	// /-/ready 200 ready
	// /hello 200 hello
}
