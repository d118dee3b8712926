package web

import "context"

// An overview is the data of the first page.
type overview struct {
	Endpoints []endpoint
}

// An endpoint is a path for programs.
type endpoint struct{ Path, What string }

func (s *Server) overviewPage() page {
	return page{path: "/", title: "Overview", template: "overview", key: "o", answer: s.overview}
}

func (s *Server) overview(_ context.Context, v *view) (any, error) {
	return &overview{Endpoints: s.endpoints(v.texts)}, nil
}

// endpoints are the paths for programs that the account may ask.
func (s *Server) endpoints(texts bool) []endpoint {
	var all []endpoint
	for _, r := range s.opts.Routes {
		if r.Path != "" && (texts || r.Textless != nil) {
			all = append(all, endpoint{r.Path, r.What})
		}
	}
	if s.opts.Live != nil {
		all = append(all, endpoint{"/api/v1/live", "statements, errors and latency of the last 10 seconds"})
	}
	if s.opts.Plans != nil && texts {
		all = append(all, endpoint{"/api/v1/plans", "the plan cache and its largest plans"})
	}
	if s.opts.QueryLog != nil && texts {
		all = append(all, endpoint{"/debug/querylog", "the latest lines of the query log, then each as it comes"})
	}
	return append(all,
		endpoint{"/metrics", "metrics in Prometheus' text format"},
		endpoint{"/-/healthy", "answers as long as the process does"},
		endpoint{"/-/ready", "whether the service can do its work"},
		endpoint{"/debug/pprof/", "Go's profiles"},
	)
}
