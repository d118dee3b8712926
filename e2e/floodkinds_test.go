//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/golang/snappy"
	"github.com/klauspost/compress/gzip"
	"github.com/prometheus/prometheus/prompb"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// The paths that floods request.
const (
	queryPath = "/api/v1/query"
	readPath  = "/api/v1/read"
)

// floods returns all floods: those of HTTP, of gRPC, and of the control socket.
func floods() []flood {
	return append(webFloods(), append([]flood{
		{"the control socket of a copy", 300, often, func(ctx context.Context, f *flooded) error {
			return dialed(ctx, "unix", f.control, func(conn net.Conn) error { return drip(ctx, conn, "GET /status HTTP/1.1\r\n", "a") })
		}},
	}, grpcFloods()...)...)
}

// Rounds a second of floods; seldom where a round costs the client much.
const often, seldom = 1000, 20

// webFloods returns the floods of the HTTP port.
func webFloods() []flood {
	web := func(name string, loops int, do func(ctx context.Context, conn net.Conn) error) flood {
		return flood{name, loops, often, func(ctx context.Context, f *flooded) error {
			return dialed(ctx, "tcp", f.web, func(conn net.Conn) error { return do(ctx, conn) })
		}}
	}
	form := func(expr string) (http.Header, []byte) {
		return http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, []byte(url.Values{"query": {expr}}.Encode())
	}
	query := func(name string, loops int, expr string) flood {
		return flood{name, loops, often, func(ctx context.Context, f *flooded) error {
			header, body := form(expr)
			return f.request(ctx, http.MethodPost, queryPath, "viewer", header, body)
		}}
	}
	return []flood{
		web("idle connections", 1100, func(_ context.Context, conn net.Conn) error { return hold(conn, "") }),
		web("slow headers", 1100, func(ctx context.Context, conn net.Conn) error { return drip(ctx, conn, "GET / HTTP/1.1\r\nX-", "a") }),
		web("slow bodies", 1100, func(ctx context.Context, conn net.Conn) error {
			return drip(ctx, conn, "POST "+queryPath+" HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 9000000\r\n\r\n", "a")
		}),
		web("bodies held after a 401", 1100, func(_ context.Context, conn net.Conn) error {
			return hold(conn, "POST "+queryPath+" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000000\r\n\r\n")
		}),
		web("bodies held by a viewer", 300, func(_ context.Context, conn net.Conn) error {
			return hold(conn, "POST "+queryPath+" HTTP/1.1\r\nHost: localhost\r\n"+viewer+"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 9000000\r\n\r\n")
		}),
		web("unfinished forms of 9.9 MiB", 150, func(_ context.Context, conn net.Conn) error {
			return hold(conn, "POST "+queryPath+" HTTP/1.1\r\nHost: localhost\r\n"+viewer+"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 10380903\r\n\r\n"+largeForm())
		}),
		web("endless chunked bodies", 100, func(ctx context.Context, conn net.Conn) error {
			return drip(ctx, conn, "POST "+queryPath+" HTTP/1.1\r\nHost: localhost\r\n"+viewer+"Transfer-Encoding: chunked\r\n\r\n", "4000\r\n"+strings.Repeat("a", 0x4000)+"\r\n")
		}),
		web("large headers", 50, func(_ context.Context, conn net.Conn) error {
			return hold(conn, "GET / HTTP/1.1\r\nHost: localhost\r\nX-Large: "+strings.Repeat("a", 1<<20)+"\r\n\r\n")
		}),
		web("many headers", 50, func(_ context.Context, conn net.Conn) error {
			return hold(conn, "GET / HTTP/1.1\r\nHost: localhost\r\n"+strings.Repeat("X-Many: a\r\n", 20000)+"\r\n")
		}),
		web("long paths", 50, func(_ context.Context, conn net.Conn) error {
			return hold(conn, "GET /"+strings.Repeat("a/", 30000)+" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
		}),
		web("resets", 50, func(_ context.Context, conn net.Conn) error {
			_, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: local")
			return errors.Join(err, reset(conn))
		}),
		web("resets before the response", 50, func(_ context.Context, conn net.Conn) error {
			_, err := io.WriteString(conn, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n"+viewer+"\r\n")
			return errors.Join(err, reset(conn))
		}),
		web("responses never read", 200, func(ctx context.Context, conn net.Conn) error {
			return neverRead(ctx, conn, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n"+viewer+"\r\n")
		}),
		web("log streams never read", 300, func(ctx context.Context, conn net.Conn) error {
			return neverRead(ctx, conn, "GET /debug/querylog?for=60s HTTP/1.1\r\nHost: localhost\r\n"+viewer+"\r\n")
		}),
		web("HTTP/2 on the HTTP/1 port", 50, func(_ context.Context, conn net.Conn) error { return hold(conn, http2.ClientPreface) }),
		web("random bytes", 50, func(_ context.Context, conn net.Conn) error {
			return hold(conn, randomBytes())
		}),
		web("TLS handshakes on the clear port", 50, func(ctx context.Context, conn net.Conn) error {
			return tls.Client(conn, &tls.Config{InsecureSkipVerify: true}).HandshakeContext(ctx)
		}),
		{"wrong passwords", 20, often, func(ctx context.Context, f *flooded) error {
			return f.request(ctx, http.MethodGet, "/", "wrong", nil, nil)
		}},
		{"wrong tokens", 50, often, func(ctx context.Context, f *flooded) error {
			return f.request(ctx, http.MethodGet, "/", "", http.Header{"Authorization": {"Bearer " + rand.Text()}}, nil)
		}},
		{"reloads by a viewer", 50, often, func(ctx context.Context, f *flooded) error {
			return f.request(ctx, http.MethodPost, "/-/reload", "viewer", nil, nil)
		}},
		query("PromQL of many steps", 20, `sum(rate(tare_queries_total[5m]))[1h:1s]`),
		query("PromQL of all series", 20, `{__name__=~".+"}`),
		query("PromQL that is nested deeply", 20, strings.Repeat("(", 5000)+"1"+strings.Repeat(")", 5000)),
		query("PromQL of a large regular expression", 20, `up{a=~"`+strings.Repeat("(a|b)*", 3000)+`"}`),
		{"PromQL of a long text", 20, seldom, func(ctx context.Context, f *flooded) error {
			header, body := form("1" + strings.Repeat("+1", 2_000_000))
			return f.request(ctx, http.MethodPost, queryPath, "viewer", header, body)
		}},
		{"series of all names", 20, often, func(ctx context.Context, f *flooded) error {
			return f.request(ctx, http.MethodGet, "/api/v1/series?match[]="+url.QueryEscape(`{__name__=~".+"}`), "viewer", nil, nil)
		}},
		{"label values", 50, often, func(ctx context.Context, f *flooded) error {
			return f.request(ctx, http.MethodGet, "/api/v1/label/digest/values", "viewer", nil, nil)
		}},
		{"remote reads of many queries", 10, seldom, func(ctx context.Context, f *flooded) error {
			return f.request(ctx, http.MethodPost, readPath, "viewer", readHeader(), manyReads())
		}},
		{"compressed bombs of remote reads", 20, seldom, func(ctx context.Context, f *flooded) error {
			return f.request(ctx, http.MethodPost, readPath, "viewer", readHeader(), snappyBomb())
		}},
		{"compressed bombs of forms", 20, seldom, func(ctx context.Context, f *flooded) error {
			header, _ := form("")
			header.Set("Content-Encoding", "gzip")
			return f.request(ctx, http.MethodPost, queryPath, "viewer", header, gzipBomb())
		}},
		{"pages", 20, often, func(ctx context.Context, f *flooded) error {
			return f.request(ctx, http.MethodGet, "/", "viewer", nil, nil)
		}},
	}
}

// viewer is the header of the viewer's account.
const viewer = "Authorization: Basic dmlld2VyOnZpZXdlcg==\r\n"

func readHeader() http.Header {
	return http.Header{"Content-Type": {"application/x-protobuf"}, "Content-Encoding": {"snappy"}, "X-Prometheus-Remote-Read-Version": {"0.1.0"}}
}

// Bodies that are made once.
var (
	randomBytes = sync.OnceValue(func() string {
		b := make([]byte, 4096)
		_, _ = rand.Read(b) // never fails
		return string(b)
	})
	largeForm  = sync.OnceValue(func() string { return strings.Repeat("a", 10380902) })
	snappyBomb = sync.OnceValue(func() []byte { return snappy.Encode(nil, make([]byte, 100<<20)) })
	gzipBomb   = sync.OnceValue(func() []byte {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, err := w.Write(make([]byte, 50<<20))
		return made(b.Bytes, errors.Join(err, w.Close()))
	})
	// A remote read of 300,000 queries.
	manyReads = sync.OnceValue(func() []byte {
		r := &prompb.ReadRequest{}
		q := &prompb.Query{EndTimestampMs: time.Now().UnixMilli(), Matchers: []*prompb.LabelMatcher{{Name: "a", Value: "b"}}}
		for range 300_000 {
			r.Queries = append(r.Queries, q)
		}
		text, err := r.Marshal()
		return made(func() []byte { return snappy.Encode(nil, text) }, err)
	})
)

func made(body func() []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return body()
}

// grpcFloods returns floods of HTTP/2 frames.
func grpcFloods() []flood {
	const often = 5000
	frames := func(name string, loops int, do func(fr *http2.Framer, i uint32) error) flood {
		return flood{name, loops, often, func(ctx context.Context, f *flooded) error {
			return dialed(ctx, "tcp", f.grpc, func(conn net.Conn) error {
				if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
					return err
				}
				fr := http2.NewFramer(conn, conn)
				if err := fr.WriteSettings(); err != nil {
					return err
				}
				go func() { _, _ = io.Copy(io.Discard, conn) }() // ends with the connection
				for i := uint32(0); i < 20_000 && f.pace.Wait(ctx) == nil; i++ {
					if err := do(fr, i); err != nil {
						return err
					}
				}
				return nil
			})
		}}
	}
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, h := range [][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":path", "/thanos.Store/Series"}, {":authority", "store"}, {"content-type", "application/grpc"}, {"te", "trailers"},
	} {
		if err := encoder.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]}); err != nil {
			panic(err)
		}
	}
	header := block.Bytes()
	open := func(fr *http2.Framer, i uint32, last bool) error {
		return fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*i + 1, BlockFragment: header, EndHeaders: last})
	}
	return []flood{
		{"idle gRPC connections", 1100, often, func(ctx context.Context, f *flooded) error {
			return dialed(ctx, "tcp", f.grpc, func(conn net.Conn) error { return hold(conn, "") })
		}},
		frames("gRPC settings", 20, func(fr *http2.Framer, _ uint32) error {
			return fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 16})
		}),
		frames("gRPC pings", 20, func(fr *http2.Framer, i uint32) error { return fr.WritePing(false, [8]byte{byte(i)}) }),
		frames("gRPC continuations", 20, func(fr *http2.Framer, i uint32) error {
			if i == 0 {
				return open(fr, 0, false)
			}
			return fr.WriteContinuation(1, false, bytes.Repeat([]byte{0, 1, 'a', 1, 'b'}, 200))
		}),
		frames("gRPC streams that are reset", 20, func(fr *http2.Framer, i uint32) error {
			return errors.Join(open(fr, i, true), fr.WriteRSTStream(2*i+1, http2.ErrCodeCancel))
		}),
		frames("gRPC streams never read", 20, func(fr *http2.Framer, i uint32) error {
			return errors.Join(open(fr, i, true), fr.WriteData(2*i+1, true, []byte{0, 0, 0, 0, 0}))
		}),
		frames("gRPC messages that claim a length", 20, func(fr *http2.Framer, i uint32) error {
			return errors.Join(open(fr, i, true), fr.WriteData(2*i+1, false, []byte{0, 0x7f, 0xff, 0xff, 0xff}))
		}),
		frames("gRPC compressed bombs", 10, func(fr *http2.Framer, i uint32) error {
			return errors.Join(open(fr, i, true), fr.WriteData(2*i+1, true, append([]byte{1, 0, 0, 0, 20}, make([]byte, 20)...)))
		}),
		frames("gRPC window updates", 20, func(fr *http2.Framer, _ uint32) error { return fr.WriteWindowUpdate(0, 1) }),
		frames("gRPC priorities", 20, func(fr *http2.Framer, i uint32) error {
			return fr.WritePriority(2*i+1, http2.PriorityParam{StreamDep: 0, Weight: 1})
		}),
	}
}
