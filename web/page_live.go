package web

import (
	"context"
	"net/url"
	"strings"
)

// livePage shows the query log as it comes.
func (s *Server) livePage() page {
	return page{path: "/live", title: "Live", template: "live", key: "l", fixed: true, texts: true, answer: s.liveLog}
}

// A LogColumn is a field of the query log as the page shows it.
type LogColumn struct {
	Field string
	Name  string
	Kind  string // text, time, duration, bytes or number
	Shown bool   // unless somebody chooses otherwise
}

// liveData is what the page shows.
type liveData struct {
	Columns []LogColumn
	Filter  string
	Slow    string
	Query   string // where the page of a statement is, before its digest; "" when there is none
	Text    string // the latest lines as text, for who has no scripts
}

// defaultSlow is from when on a line is marked as slow.
const defaultSlow = "100ms"

func (s *Server) liveLog(_ context.Context, v *view) (any, error) {
	d := liveData{Columns: s.opts.LogColumns, Filter: cutText(strings.TrimSpace(v.query.Get("filter")), maxSelector), Slow: strings.TrimSpace(v.query.Get("slow"))}
	d.Query = s.queryPath()
	if d.Slow == "" {
		d.Slow = defaultSlow
	}
	d.Slow = cutText(d.Slow, 20)
	d.Text = withPairs("/debug/querylog", url.Values{}, []string{"format", "text", "for", "0s", "filter", d.Filter})
	return d, nil
}

// StatementColumns are the columns of a gateway's log.
func StatementColumns() []LogColumn {
	return []LogColumn{
		{"end", "Time", "time", true},
		{"total_ns", "Took", "duration", true},
		{"user", "User", "text", true},
		{"schema", "Schema", "text", true},
		{"statement_type", "Type", "text", true},
		{"rows_returned", "Rows", "number", true},
		{"rows_affected", "Changed", "number", false},
		{"bytes_out", "Bytes", "bytes", false},
		{"backend_ns", "Backend", "duration", false},
		{"plan_ns", "Plan", "duration", false},
		{"client", "Client", "text", false},
		{"command", "Command", "text", false},
		{"digest", "Digest", "text", false},
		{"error_number", "Error", "number", false},
		{"normalized", "Statement", "text", true},
	}
}

// StoreColumns are the columns of a store's log.
func StoreColumns() []LogColumn {
	return []LogColumn{
		{"end", "Time", "time", true},
		{"total_ns", "Took", "duration", true},
		{"endpoint", "Endpoint", "text", true},
		{"tenant", "Tenant", "text", false},
		{"series", "Series", "number", true},
		{"chunks", "Chunks", "number", false},
		{"blocks", "Blocks", "number", true},
		{"bytes_fetched", "Fetched", "bytes", true},
		{"bytes_peak", "Peak", "bytes", false},
		{"wait_ns", "Waited", "duration", false},
		{"client", "Client", "text", false},
		{"code", "Code", "text", true},
		{"matchers", "Query", "text", true},
	}
}

// FrontendColumns are the columns of a frontend's log.
func FrontendColumns() []LogColumn {
	return []LogColumn{
		{"end", "Time", "time", true},
		{"total_ns", "Took", "duration", true},
		{"endpoint", "Endpoint", "text", true},
		{"tenant", "Tenant", "text", false},
		{"shards", "Shards", "number", true},
		{"requests", "Requests", "number", false},
		{"retries", "Retries", "number", true},
		{"items_out", "Items", "number", true},
		{"bytes_out", "Bytes", "bytes", true},
		{"client", "Client", "text", false},
		{"decoder", "Decoder", "text", false},
		{"status", "Status", "number", true},
		{"selector", "Selector", "text", true},
	}
}

// RowstreamColumns are the columns of a row server's log.
func RowstreamColumns() []LogColumn {
	return []LogColumn{
		{"end", "Time", "time", true},
		{"total_ns", "Took", "duration", true},
		{"call", "Call", "text", true},
		{"table", "Table", "text", true},
		{"chunk", "Chunk", "number", true},
		{"rows", "Rows", "number", true},
		{"changes", "Changes", "number", true},
		{"bytes", "Bytes", "bytes", true},
		{"bytes_out", "On the wire", "bytes", false},
		{"upto", "Up to", "text", false},
		{"client", "Client", "text", false},
		{"code", "Code", "text", true},
	}
}
