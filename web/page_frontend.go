package web

import (
	"context"

	"github.com/taredb/tare/frontend"
)

// frontendPage shows whom a frontend asks and what it was asked.
func (s *Server) frontendPage(path string) page {
	return page{path: path, title: "Frontend", template: "frontend", key: "f", fixed: true, follow: true, answer: s.frontend}
}

// frontendData is what the page shows.
type frontendData struct {
	frontend.Overview
	Peers  []peerRow
	Values bool // selectors are shown as they were asked

	Endpoints []endpoint
}

// A peerRow is one of those who are asked.
type peerRow struct {
	frontend.Peer
	Mean float64 // seconds until the headers of an answer; 0: none answered
	Word string  // how it is
	Bad  bool
}

func (s *Server) frontend(_ context.Context, v *view) (any, error) {
	values := v.texts && s.opts.FrontendValues
	o := s.opts.Frontend(values)
	d := frontendData{Overview: o, Values: values, Endpoints: s.endpoints(v.account)}
	for _, p := range o.Peers {
		r := peerRow{Peer: p, Word: "answers"}
		if p.Answered > 0 {
			r.Mean = p.Seconds / float64(p.Answered)
		}
		switch {
		case p.Answered+p.Failed+p.Refused == 0:
			r.Word = "no requests yet"
		case p.Failed > 0 && p.Answered == 0:
			r.Word, r.Bad = "never succeeded", true
		case p.Failed > 0:
			r.Word = "failed earlier"
		}
		d.Peers = append(d.Peers, r)
	}
	return d, nil
}
