package markers

import (
	"bytes"
	"context"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/taredb/tare/internal/mysql/sqlplan"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/sqldigest"
	"github.com/taredb/tare/querylog"
)

const (
	// numSlots is the number of schema changes that may wait for Run.
	numSlots = 64

	// scanned is the number of bytes of several statements in one text that are searched for a schema change.
	scanned = 4096

	// slotTexts are the bytes of the texts of all slots: maxText of each, and a whole text of the gateway.
	slotTexts = numSlots*maxText + sqldigest.DefaultMaxText
)

// ddlSlots pass schema changes from sessions to Run.
type ddlSlots struct {
	wake chan struct{} // has room for one

	mu    sync.Mutex
	used  int // guarded by mu, as all below
	slots [numSlots]ddlSlot
	texts []byte // of the slots in use; has room for slotTexts
}

// A ddlSlot is one schema change.
type ddlSlot struct {
	start        time.Time
	took         time.Duration
	kind         Kind
	user, schema string
	client       netip.AddrPort
	from, to     int  // of the text, in the texts of all slots
	cut          bool // it lacks the end of the statement
}

// The types of statements that become markers.
var (
	typeDDL     = sqlplan.TypeDDL.String()
	typeAnalyze = sqlplan.TypeAnalyze.String()
	typeMulti   = sqlplan.TypeMulti.String()
)

// Observe implements gateway.Observer: it keeps successful schema changes. It does not allocate, and returns
// immediately for other statements.
func (s *Store) Observe(r *querylog.Record) {
	kind := KindDDL
	switch r.StatementType {
	case typeDDL:
	case typeAnalyze:
		kind = KindAnalyze
	case typeMulti:
		if !mayChangeSchema(r.Normalized[:min(len(r.Normalized), scanned)]) {
			return
		}
	default:
		return
	}
	if r.ErrorNumber != 0 || r.Command == mysqlwire.ComStmtPrepare || len(r.Normalized) == 0 {
		return
	}
	if !s.ddl.put(kind, r) {
		s.dropped.Add(1)
		return
	}
	select {
	case s.ddl.wake <- struct{}{}:
	default: // Run is already notified
	}
}

// mayChangeSchema reports whether several statements in one text may include a schema change.
func mayChangeSchema(text []byte) bool {
	for _, word := range [...]string{"alter ", "create ", "drop ", "rename ", "truncate "} {
		for i := 0; i+len(word) <= len(text); i++ {
			if text[i]|0x20 == word[0] && equalFold(text[i:i+len(word)], word) {
				return true
			}
		}
	}
	return false
}

// equalFold compares with a word in lower case.
func equalFold(text []byte, word string) bool {
	for i, c := range text {
		if c|0x20 != word[i]|0x20 {
			return false
		}
	}
	return true
}

func (d *ddlSlots) put(kind Kind, r *querylog.Record) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.used == numSlots {
		return false
	}
	slot := &d.slots[d.used]
	d.used++
	room := slotTexts - len(d.texts) - (numSlots-d.used)*maxText
	text := r.Normalized[:min(len(r.Normalized), room)]
	slot.from, slot.to = len(d.texts), len(d.texts)+len(text)
	d.texts = append(d.texts, text...)
	slot.start, slot.took, slot.kind, slot.user, slot.schema, slot.client = r.Start, r.Total, kind, r.User, r.Schema, r.Client
	slot.cut = r.NormalizedCut || len(text) < len(r.Normalized)
	return true
}

// take moves all slots to dst, and their texts to texts.
func (d *ddlSlots) take(dst []ddlSlot, texts []byte) ([]ddlSlot, []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	dst, texts = append(dst[:0], d.slots[:d.used]...), append(texts[:0], d.texts...)
	d.used, d.texts = 0, d.texts[:0]
	return dst, texts
}

// Run records the schema changes that Observe has seen, until ctx is done.
func (s *Store) Run(ctx context.Context) error {
	var taken []ddlSlot
	var texts []byte
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.ddl.wake:
		}
		taken, texts = s.ddl.take(taken, texts)
		for i := range taken {
			if m, ok := s.schemaChange(&taken[i], texts[taken[i].from:taken[i].to]); ok {
				s.Add(m)
			}
		}
	}
}

// schemaChange returns the marker of a schema change, unless it changes only temporary tables, which other
// sessions cannot see. A text without its end names no tables.
func (s *Store) schemaChange(slot *ddlSlot, text []byte) (Marker, bool) {
	plan := planOf(s.planner, text, slot.schema)
	effects := plan.Effects()
	if effects.Has(sqlplan.EffectTempTable) || slot.kind == KindDDL && !effects.Has(sqlplan.EffectSchema) {
		return Marker{}, false
	}
	m := Marker{
		Time: slot.start, End: slot.start.Add(slot.took), Kind: slot.kind, Title: "Schema change",
		User: slot.user, Client: slot.client.Addr().Unmap().String(),
	}
	if !slot.client.IsValid() {
		m.Client = ""
	}
	if slot.kind == KindAnalyze {
		m.Title = "Table statistics updated"
	}
	if s.opts.NoTexts {
		return m, true
	}
	m.Text = strings.ToValidUTF8(string(bytes.TrimSpace(text)), "\uFFFD")
	if m.TextCut = slot.cut; !slot.cut {
		m.Tables = tablesOf(plan)
	}
	return m, true
}

// maxTables bounds the tables of a marker.
const maxTables = 64

func tablesOf(plan *sqlplan.Plan) []string {
	var all []string
	for t := range plan.Tables() {
		if name := t.String(); len(all) < maxTables && !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

func planOf(p *sqlplan.Planner, text []byte, schema string) *sqlplan.Plan {
	name := []byte(schema)
	return p.Plan(sqlplan.Statement{
		SQL: text, Complete: true, Text: text, Digest: sqldigest.OfText(text), Scope: p.ScopeOf(name, nil, 0), Schema: name,
	})
}

// TablesOf returns the tables that a statement names, as schema.table, from its normalized text and default
// schema. It parses the text in the first call, and caches the result within a small bound.
func (s *Store) TablesOf(text, schema string) []string {
	if text == "" {
		return nil
	}
	return tablesOf(planOf(s.planner, []byte(text), schema))
}
