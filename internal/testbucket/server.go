package testbucket

import (
	"bytes"
	"crypto/md5" //nolint:gosec // S3's ETag
	"encoding/xml"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// A Server is an S3 server in memory with one bucket, addressed by path. It checks no signatures and supports
// the requests for reading, listing, uploading and deleting. It is safe for concurrent use.
type Server struct {
	mu      sync.Mutex
	objects map[string]object         // by key
	parts   map[string]map[int][]byte // of incomplete uploads, by upload and number
}

type object struct {
	text    []byte
	written time.Time
}

var _ http.Handler = (*Server)(nil)

// NewServer returns a server without objects.
func NewServer() *Server {
	return &Server{objects: make(map[string]object), parts: make(map[string]map[int][]byte)}
}

// Put stores an object.
func (s *Server) Put(key string, text []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects[key] = object{text, time.Now()}
}

// PutDir stores the files of a directory as objects below prefix, except "tombstones", which stores do not
// upload.
func (s *Server) PutDir(tb testing.TB, prefix, dir string) {
	tb.Helper()
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "tombstones" {
			return err
		}
		text, err := os.ReadFile(filepath.Join(dir, name))
		s.Put(prefix+name, text)
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
}

// Get returns an object; false if there is none.
func (s *Server) Get(key string) ([]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.objects[key]
	return o.text, ok
}

// Keys returns the keys of all objects, sorted.
func (s *Server) Keys() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.objects))
}

// Delete removes the objects whose keys have the prefix.
func (s *Server) Delete(prefix string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.objects, func(key string, _ object) bool { return strings.HasPrefix(key, prefix) })
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	query := r.URL.Query()
	switch {
	case query.Has("uploads") || query.Has("uploadId"):
		s.upload(w, r, key, query.Get("uploadId"))
	case key == "" && r.Method == http.MethodGet && query.Get("list-type") == "2":
		s.list(w, r)
	case key != "" && (r.Method == http.MethodGet || r.Method == http.MethodHead):
		s.mu.Lock()
		o, ok := s.objects[key]
		s.mu.Unlock()
		if !ok {
			writeError(w, http.StatusNotFound, "NoSuchKey")
			return
		}
		w.Header().Set("ETag", fmt.Sprintf("%q", fmt.Sprintf("%x", md5.Sum(o.text)))) //nolint:gosec // S3's ETag
		w.Header().Set("Content-Type", "application/octet-stream")
		http.ServeContent(w, r, "", o.written, bytes.NewReader(o.text))
	case key != "" && r.Method == http.MethodPut && len(query) == 0:
		text, err := readUpload(r)
		if err != nil {
			writeError(w, http.StatusBadRequest, "IncompleteBody")
			return
		}
		s.Put(key, text)
		w.Header().Set("ETag", fmt.Sprintf("%q", fmt.Sprintf("%x", md5.Sum(text)))) //nolint:gosec // S3's ETag
	case key != "" && r.Method == http.MethodDelete:
		s.mu.Lock()
		delete(s.objects, key)
		s.mu.Unlock()
		w.WriteHeader(http.StatusNoContent)
	default:
		writeError(w, http.StatusNotImplemented, "NotImplemented")
	}
}

// upload serves an upload of several parts.
func (s *Server) upload(w http.ResponseWriter, r *http.Request, key, id string) {
	body, err := readUpload(r)
	if err != nil {
		writeError(w, http.StatusBadRequest, "IncompleteBody")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	parts, known := s.parts[id]
	w.Header().Set("Content-Type", "application/xml")
	switch {
	case r.Method == http.MethodPost && id == "":
		id = fmt.Sprint("upload-", len(s.parts))
		s.parts[id] = make(map[int][]byte)
		_, _ = fmt.Fprintf(w, "<InitiateMultipartUploadResult><Bucket>metrics</Bucket><Key>%s</Key><UploadId>%s</UploadId></InitiateMultipartUploadResult>", key, id) // the client may have disconnected
	case !known:
		writeError(w, http.StatusNotFound, "NoSuchUpload")
	case r.Method == http.MethodPut:
		number, _ := strconv.Atoi(r.URL.Query().Get("partNumber"))
		parts[number] = body
		w.Header().Set("ETag", fmt.Sprintf("%q", fmt.Sprintf("%x", md5.Sum(body)))) //nolint:gosec // S3's ETag
	case r.Method == http.MethodPost:
		var text []byte
		for _, number := range slices.Sorted(maps.Keys(parts)) {
			text = append(text, parts[number]...)
		}
		s.objects[key] = object{text, time.Now()}
		_, _ = fmt.Fprintf(w, `<CompleteMultipartUploadResult><Bucket>metrics</Bucket><Key>%s</Key><ETag>"%x-1"</ETag></CompleteMultipartUploadResult>`, key, md5.Sum(text)) //nolint:gosec // S3's ETag
	default: // it is aborted
		clear(parts)
		w.WriteHeader(http.StatusNoContent)
	}
}

// readUpload returns the body of an upload; a signed one consists of chunks with a signature each.
func readUpload(r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil || !strings.HasPrefix(r.Header.Get("X-Amz-Content-Sha256"), "STREAMING-") {
		return body, err
	}
	var text []byte
	for {
		line, rest, ok := bytes.Cut(body, []byte("\r\n"))
		size, _, _ := strings.Cut(string(line), ";")
		n, err := strconv.ParseUint(size, 16, 31)
		if !ok || err != nil || uint64(len(rest)) < n {
			return nil, io.ErrUnexpectedEOF
		}
		if n == 0 {
			return text, nil
		}
		text = append(text, rest[:n]...)
		body = bytes.TrimPrefix(rest[n:], []byte("\r\n"))
	}
}

// pageKeys is the number of names on a page of a listing: few, so that listings have several pages.
const pageKeys = 20

type listResult struct {
	XMLName               xml.Name     `xml:"http://s3.amazonaws.com/doc/2006-03-01/ ListBucketResult"`
	Name                  string       `xml:"Name"`
	Prefix                string       `xml:"Prefix"`
	KeyCount              int          `xml:"KeyCount"`
	MaxKeys               int          `xml:"MaxKeys"`
	IsTruncated           bool         `xml:"IsTruncated"`
	NextContinuationToken string       `xml:"NextContinuationToken,omitempty"`
	Contents              []listed     `xml:"Contents"`
	CommonPrefixes        []listedUnit `xml:"CommonPrefixes"`
}

type listed struct {
	Key          string `xml:"Key"`
	LastModified string `xml:"LastModified"`
	ETag         string `xml:"ETag"`
	Size         int    `xml:"Size"`
	StorageClass string `xml:"StorageClass"`
}

type listedUnit struct {
	Prefix string `xml:"Prefix"`
}

func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	prefix, delimiter := q.Get("prefix"), q.Get("delimiter")
	after := max(q.Get("continuation-token"), q.Get("start-after"))
	bucket, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	result := listResult{Name: bucket, Prefix: prefix, MaxKeys: pageKeys}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		name, inside := strings.CutPrefix(key, prefix)
		if !inside {
			continue
		}
		unit := ""
		if dir, _, nested := strings.Cut(name, delimiter); delimiter != "" && nested {
			unit = prefix + dir + delimiter
		}
		at := key
		if unit != "" {
			at = unit
		}
		n := len(result.CommonPrefixes)
		if at <= after || unit != "" && n > 0 && result.CommonPrefixes[n-1].Prefix == unit {
			continue
		}
		if result.KeyCount == pageKeys {
			result.IsTruncated = true
			break
		}
		result.KeyCount++
		result.NextContinuationToken = at
		if unit != "" {
			result.CommonPrefixes = append(result.CommonPrefixes, listedUnit{unit})
			continue
		}
		o := s.objects[key]
		result.Contents = append(result.Contents, listed{
			Key: key, LastModified: o.written.UTC().Format("2006-01-02T15:04:05.000Z"), Size: len(o.text),
			ETag: fmt.Sprintf("%q", fmt.Sprintf("%x", md5.Sum(o.text))), StorageClass: "STANDARD", //nolint:gosec // S3's ETag
		})
	}
	if !result.IsTruncated {
		result.NextContinuationToken = ""
	}
	text, err := xml.Marshal(result)
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/xml")
	_, _ = w.Write(append([]byte(xml.Header), text...)) // the client may have disconnected
}

// writeError sends an error response of S3.
func writeError(w http.ResponseWriter, code int, name string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(code)
	_, _ = fmt.Fprintf(w, "%s<Error><Code>%s</Code><Message>%s</Message></Error>", xml.Header, name, name) // the client may have disconnected
}
