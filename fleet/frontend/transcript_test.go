package frontend

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestTranscripts runs the exchanges of testdata/exchange:
//
//	ask shards=2 [members=2] [replicas=2]
//	? selector=up
//	> Header: value
//	1_of_2 200 {"data":[…]}
//	2_of_2 429 slow down
//	----
//	requests to the downstreams, and the client's response
//
// A line is the response to a shard, or to "all", on each downstream or, with the downstream's number before
// it, as in 0:1_of_2, on that one. A body that starts with counted:LABEL comes from a downstream that counts
// itself. An error response is sent when all shards were requested: it cancels the others.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata/exchange", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd != "ask" {
				d.Fatalf(t, "unknown command %s", d.Cmd)
			}
			number := func(name string) int {
				n := 1
				if d.HasArg(name) {
					d.ScanArgs(t, name, &n)
				}
				return n
			}
			shards, members, replicas := number("shards"), number("members"), number("replicas")
			systems := max(members, replicas)
			query, script := "", map[string]string{}
			var headers []string
			for line := range strings.Lines(d.Input) {
				client, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
				switch client {
				case "?":
					query = rest
				case ">":
					name, value, _ := strings.Cut(rest, ": ")
					headers = append(headers, name, value)
				default:
					script[client] = rest
				}
			}
			var asked barrier
			asked.expect(shards)
			replies := make([]shardResponse, systems)
			for i := range replies {
				replies[i] = scripted(script, i, &asked)
			}
			l := newFleet(t, members > 1, func(o *Options) { o.Shards = shards }, replies...)
			l.frontend.turn.Store(uint32(systems - 1)) // makes downstream 0 the first
			const api = "/api/v1/cardinality/active_series"
			r := l.ask(http.MethodGet, api+"?"+escaped(query), nil, headers...)
			var out strings.Builder
			for _, asked := range l.takeAsked() {
				fmt.Fprintln(&out, "->", strings.ReplaceAll(asked, "/prometheus"+api, "…"))
			}
			fmt.Fprintln(&out, "<-", r.code, http.StatusText(r.code))
			for _, name := range []string{"Retry-After", countHeader} {
				if v := r.header.Get(name); v != "" {
					fmt.Fprintf(&out, "<- %s: %s\n", name, v)
				}
			}
			fmt.Fprintln(&out, "<-", strings.TrimSpace(maskHosts(l, r.body)))
			return out.String()
		})
	})
}

// escaped encodes name=value pairs with unescaped values as a form.
func escaped(query string) string {
	form := url.Values{}
	for pair := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(pair, "=")
		form.Add(name, value)
	}
	return form.Encode()
}

// maskHosts replaces the addresses of downstreams by their indices.
func maskHosts(l *fleet, text string) string {
	o := &l.frontend.options
	for i, u := range append(o.Downstreams[:len(o.Downstreams):len(o.Downstreams)], o.Members...) {
		text = strings.ReplaceAll(text, u.Host, "system-"+strconv.Itoa(i))
	}
	return text
}

// A barrier opens when the expected number of requests have arrived.
type barrier struct {
	missing atomic.Int32
	open    chan struct{}
}

func (b *barrier) expect(n int) {
	b.missing.Store(int32(n))
	b.open = make(chan struct{})
}

func (b *barrier) come() {
	if b.missing.Add(-1) == 0 {
		close(b.open)
	}
}

func scripted(script map[string]string, system int, asked *barrier) shardResponse {
	return func(w http.ResponseWriter, _ *http.Request, shard string) {
		asked.come()
		for _, client := range []string{strconv.Itoa(system) + ":" + shard, strconv.Itoa(system) + ":all", shard, "all"} {
			result, ok := script[client]
			if !ok {
				continue
			}
			code, body, _ := strings.Cut(result, " ")
			if rest, ok := strings.CutPrefix(body, "counted:"); ok {
				label, text, _ := strings.Cut(rest, " ")
				w.Header().Set(countHeader, label)
				body = text
			}
			n, err := strconv.Atoi(code)
			if err != nil {
				panic(err)
			}
			if n >= http.StatusBadRequest {
				<-asked.open
			}
			w.Header().Set("Content-Type", "application/json")
			if n == http.StatusTooManyRequests {
				w.Header().Set("Retry-After", "30")
			}
			w.WriteHeader(n)
			_, _ = io.WriteString(w, body)
			return
		}
		panic("no answer for shard " + shard)
	}
}
