package main

import (
	"context"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/taredb/tare/internal/testbucket"
)

const (
	bucketName = "blocks"
	accessKey  = "key"
	secretKey  = "secret"
)

// An s3Server serves a directory as a bucket. Each response is sent after a time.
type s3Server struct {
	addr     string
	server   *http.Server
	requests atomic.Int64
}

// startS3 loads the files of dir and serves them.
func startS3(dir string, latency time.Duration) (*s3Server, error) {
	bucket := testbucket.NewServer()
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(name, "debug/") || d.Name() == "tombstones" {
			return err
		}
		text, err := os.ReadFile(filepath.Join(dir, name))
		bucket.Put(name, text)
		return err
	})
	if err != nil {
		return nil, err
	}
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &s3Server{addr: l.Addr().String()}
	s.server = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		select {
		case <-time.After(latency):
			bucket.ServeHTTP(w, r)
		case <-r.Context().Done():
		}
	})}
	go func() { _ = s.server.Serve(l) }()
	return s, nil
}
