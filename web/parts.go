package web

// partPages returns the pages of the server's components.
func (s *Server) partPages() []page {
	o := &s.opts
	var all []page
	if o.Sessions != nil {
		all = append(all, s.sessionsPage())
	}
	if o.QueryLog != nil && o.LogColumns != nil {
		all = append(all, s.livePage())
	}
	if o.Plans != nil {
		all = append(all, s.plansPage())
	}
	if o.Series != nil {
		all = append(all, s.seriesPage())
	}
	if s.rangeQueries() != nil {
		all = append(all, s.promqlPage())
	}
	if o.Copies != nil {
		all = append(all, s.copiesPage())
	}
	if o.Store != nil && !s.storeFirst() {
		all = append(all, s.storePage("/store"))
	}
	if o.Weight != nil {
		all = append(all, s.weightPage())
	}
	return all
}

// firstPage returns the page at /. A server without statements has the page of its main component there.
func (s *Server) firstPage() page {
	switch o := &s.opts; {
	case s.storeFirst():
		return s.storePage("/")
	case o.Frontend != nil:
		return s.frontendPage("/")
	case o.Progress != nil:
		return s.progressPage("/")
	case o.Rows != nil:
		return s.rowsPage("/")
	}
	return s.overviewPage()
}

// queryPath returns the path of a statement's page, before its digest, or "" if there are none.
func (s *Server) queryPath() string {
	for _, p := range s.nav {
		if p.path == "/queries" {
			return "/query/"
		}
	}
	return ""
}

// storeFirst reports whether blocks are the server's main component.
func (s *Server) storeFirst() bool { return s.opts.Store != nil && s.opts.Plans == nil }
