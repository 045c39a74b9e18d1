package portal

import (
	"slices"

	"github.com/realmkeeper/realmkeeper/internal/faces/portal/access"
)

const (
	// pageSize is the maximum number of clients on a page.
	pageSize = 50
	// chunkSize is the number of clients per API request if the portal filters or sorts them.
	chunkSize = 500
	// maxScanned is the number of clients after which a search stops. The next page continues there.
	// It is also the maximum number of clients that the portal sorts and counts.
	maxScanned = 20_000
	// latePage is the number of preceding rows from which a page of a sorted list is a late page. The
	// portal reads only one late page at a time, because it needs memory for all preceding rows.
	latePage = 1000
)

// listResult is a page of a list.
type listResult struct {
	rows    []row
	next    cursor // the zero value on the last page
	scanned int    // number of clients read
	// found is the number of matching clients if the portal sorts the list, and otherwise 0.
	found int
	// partial is set if there are more clients than the portal sorts.
	partial bool
}

// findClients returns a page of matching clients.
func (p *portal) findClients(req *request, q listQuery) (listResult, error) {
	if q.sortsHere() {
		return p.sortClients(req, q)
	}
	return p.scanClients(req, q)
}

// scanClients returns a page in the order of the API server. It stops reading as soon as the page is
// full.
func (p *portal) scanClients(req *request, q listQuery) (listResult, error) {
	var result listResult
	now := p.Now()
	limit := pageSize
	if q.filtersHere() {
		limit = chunkSize
	}
	at := q.From
	for {
		k, full := -1, false
		next, err := req.read(q, limit, at.token, func(item *listItem) bool {
			if k++; k < at.skip {
				return true
			}
			r := p.newRow(item.apiClient(), now)
			result.scanned++
			if !q.matches(&r) {
				return true
			}
			if full = len(result.rows) == pageSize; full {
				return false
			}
			result.rows = append(result.rows, r)
			return true
		})
		switch {
		case err != nil:
			return listResult{}, err
		case full:
			result.next = cursor{skip: k, token: at.token}
			return result, nil
		case next == "":
			return result, nil
		case len(result.rows) == pageSize || result.scanned >= maxScanned:
			result.next = cursor{token: next}
			return result, nil
		}
		at = cursor{token: next}
	}
}

// sortClients returns a page in an order that the API server doesn't support, so it reads all
// clients.
func (p *portal) sortClients(req *request, q listQuery) (listResult, error) {
	var result listResult
	if q.From.skip >= latePage {
		select {
		case p.late <- struct{}{}:
			defer func() { <-p.late }()
		case <-req.ctx().Done():
			return result, req.ctx().Err()
		}
	}
	first := firstRows{compare: q.Sort.compare(), limit: q.From.skip + pageSize}
	var err error
	result.scanned, result.partial, err = p.readAll(req, q, func(r row) {
		if q.matches(&r) {
			result.found++
			first.add(r)
		}
	})
	if err != nil {
		return listResult{}, err
	}
	first.trim()
	// A copy lets the preceding rows be garbage-collected while the page is rendered and sent.
	result.rows = slices.Clone(first.rows[min(q.From.skip, len(first.rows)):])
	if result.found > q.From.skip+pageSize {
		result.next = cursor{skip: q.From.skip + pageSize}
	}
	return result, nil
}

// readAll calls visit for each client in the namespace and realm of the query. It stops after
// maxScanned clients; partial is set if there are more.
func (p *portal) readAll(req *request, q listQuery, visit func(row)) (scanned int, partial bool, err error) {
	now := p.Now()
	for token := ""; ; {
		token, err = req.read(q, chunkSize, token, func(item *listItem) bool {
			scanned++
			visit(p.newRow(item.apiClient(), now))
			return true
		})
		if err != nil || token == "" || scanned >= maxScanned {
			return scanned, token != "", err
		}
	}
}

// read passes a chunk of the list, filtered by realm, to visit.
func (req *request) read(q listQuery, limit int, token string, visit func(*listItem) bool) (next string, err error) {
	page := access.Page{Namespace: q.Namespace, Realm: q.Realm, Limit: limit, Continue: token}
	return access.ListApiClients(req.ctx(), req.api, page, visit)
}
