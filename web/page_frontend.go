package web

import (
	"context"

	"github.com/taredb/tare/fleet/frontend"
	"github.com/taredb/tare/internal/access"
)

// A frontendPage shows a frontend's downstreams and requests.
type frontendPage struct {
	source func(values bool) frontend.Overview
	values bool // as Options.FrontendValues
	listed func(access.Account) []endpoint
}

// frontendData is the data of the page.
type frontendData struct {
	frontend.Overview
	Peers  []peerRow
	Values bool // selectors are displayed as requested

	Endpoints []endpoint
}

// A peerRow is one downstream.
type peerRow struct {
	frontend.Peer
	Mean float64 // seconds until the headers of a response; 0: there was none
	Word string  // state in a word
	Bad  bool
}

func (s *frontendPage) load(_ context.Context, v *view) (any, error) {
	values := v.texts && s.values
	o := s.source(values)
	d := frontendData{Overview: o, Values: values, Endpoints: s.listed(v.account)}
	for _, p := range o.Peers {
		r := peerRow{Peer: p, Word: "answers"}
		if p.Responded > 0 {
			r.Mean = p.Seconds / float64(p.Responded)
		}
		switch {
		case p.Responded+p.Failed+p.Refused == 0:
			r.Word = "no requests yet"
		case p.Failed > 0 && p.Responded == 0:
			r.Word, r.Bad = "never succeeded", true
		case p.Failed > 0:
			r.Word = "failed earlier"
		}
		d.Peers = append(d.Peers, r)
	}
	return d, nil
}
