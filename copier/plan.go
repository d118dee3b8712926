package copier

import (
	"context"

	"github.com/taredb/tare/rowstream"
)

// A PlannedTable is what a copy would do for one table.
type PlannedTable struct {
	Source        string   `json:"source"`
	Target        string   `json:"target"`
	Spec          string   `json:"spec"`   // which rows and columns
	Create        bool     `json:"create"` // the target has no such table yet
	Key           string   `json:"key"`    // name of the index that chunks are cut along
	RowsEstimate  int64    `json:"rows_estimate"`
	BytesEstimate int64    `json:"bytes_estimate"` // by the source's statistics, without indexes
	Chunks        int      `json:"chunks"`         // about how many there will be
	CopiedBefore  int      `json:"copied_before"`  // chunks that earlier runs have copied
	Indexes       []string `json:"indexes"`        // that are left out and built after the rows
	Phase         string   `json:"phase"`          // "new", or how far an earlier run came
}

// Plan says what Run would do, or why it would refuse. It changes nothing on either side.
func Plan(ctx context.Context, o Options) ([]PlannedTable, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	r := &run{o: &o, state: state{schema: o.StateSchema}}
	defer r.close()
	if err := r.describe(ctx); err != nil {
		return nil, err
	}
	if o.Follow {
		if err := r.from.(rowstream.Follower).CheckFollow(ctx, r.present(), rowstream.Position{}); err != nil {
			return nil, err
		}
	}
	planned := []PlannedTable{}
	for _, t := range r.tables {
		if err := t.recallIfAny(ctx, r, &o); err != nil {
			return nil, err
		}
		planned = append(planned, t.planned(o.ChunkBytes))
	}
	return planned, nil
}

// recallIfAny is recall where the state's tables may not be there, and nothing is emptied.
func (t *table) recallIfAny(ctx context.Context, r *run, o *Options) error {
	if o.Restart {
		return nil
	}
	err := t.recall(ctx, r.to, o, r.state, r.from.Addr())
	if absent(err) {
		return nil
	}
	return err
}

const errNoSuchTable = 1146

func (t *table) planned(chunkBytes int64) PlannedTable {
	p := PlannedTable{
		Source: t.spec.source(), Target: t.spec.target(), Spec: t.spec.text(), Create: t.create != "", Key: t.source.KeyName,
		RowsEstimate: t.source.RowsEstimate, BytesEstimate: t.source.BytesEstimate, Chunks: int(t.source.BytesEstimate/chunkBytes) + 1,
		Indexes: []string{}, Phase: "new",
	}
	later := t.later
	if t.state != nil {
		p.Phase, later = string(t.state.phase), t.state.indexes
		for _, k := range t.state.chunks {
			if k.copied {
				p.CopiedBefore++
			}
		}
	}
	for _, x := range later {
		p.Indexes = append(p.Indexes, string(x))
	}
	return p
}
