package copier

import (
	"context"

	"github.com/taredb/tare/internal/move/tabledef"
)

// A PlannedTable describes how Run would copy one table.
type PlannedTable struct {
	Source        string   `json:"source"`
	Target        string   `json:"target"`
	Spec          string   `json:"spec"`   // the rows and columns
	Create        bool     `json:"create"` // the target has no such table yet
	Key           string   `json:"key"`    // name of the index along which chunks are cut
	RowsEstimate  int64    `json:"rows_estimate"`
	BytesEstimate int64    `json:"bytes_estimate"`  // by the source's statistics, without indexes
	Chunks        int      `json:"chunks"`          // estimated number
	CopiedBefore  int      `json:"copied_before"`   // chunks copied by earlier runs
	Indexes       []string `json:"indexes"`         // indexes created after the rows
	ForeignKeys   []string `json:"foreign_keys"`    // foreign keys created after the rows
	Phase         string   `json:"phase"`           // "new", or the phase reached by an earlier run
	Notes         []string `json:"notes,omitempty"` // values that the target has in another form
}

// Plan returns what Run would do, or the error that Run would return. It runs all checks of Run, including
// the snapshot of the source, except the proof that a heartbeat arrives; of that it checks that heartbeats can be
// written to the server. It changes nothing on either side.
func Plan(ctx context.Context, o Options) ([]PlannedTable, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	r := newRun(&o, nil, nil)
	defer r.close()
	if err := inOrder(ctx, r.describe.run, r.prepare.plan); err != nil {
		return nil, err
	}
	planned := []PlannedTable{}
	for _, t := range r.tables {
		planned = append(planned, planTable(t, o.ChunkBytes))
	}
	return planned, nil
}

func planTable(t *tabledef.Table, chunkBytes int64) PlannedTable {
	p := PlannedTable{
		Source: t.Spec.Source(), Target: t.Spec.Target(), Spec: t.Spec.Text(), Create: t.Create != "", Key: t.Source.KeyName,
		RowsEstimate: t.Source.RowsEstimate, BytesEstimate: t.Source.BytesEstimate, Chunks: int(t.Source.BytesEstimate/chunkBytes) + 1,
		Indexes: []string{}, ForeignKeys: []string{}, Phase: "new",
	}
	for i := range t.Target.Columns {
		if c := &t.Target.Columns[i]; c.Type == "json" && t.Target.Typed == nil {
			p.Notes = append(p.Notes, "column "+c.Name+": documents are copied as text, in which DECIMAL, DATE, TIME, DATETIME, unsigned and binary values become plain numbers and strings")
		}
	}
	later, keys := t.DeferredIndexes, t.Keys
	if t.State != nil {
		p.Phase, later, keys = string(t.State.Phase), t.State.Indexes, t.State.Keys
		for _, k := range t.State.Chunks {
			if k.Copied {
				p.CopiedBefore++
			}
		}
	}
	for _, x := range later {
		p.Indexes = append(p.Indexes, string(x))
	}
	for _, k := range keys {
		p.ForeignKeys = append(p.ForeignKeys, k.Definition)
	}
	return p
}
