package kvindex

import (
	"parley"
)

// salts keeps each salt once, for as long as a block has it.
type salts struct {
	list []saltUse // the first is the public one
	ids  map[parley.Salt]saltID
	free []saltID
}

type saltID uint32

type saltUse struct {
	salt  parley.Salt
	users int
}

func newSalts() salts {
	return salts{list: make([]saltUse, 1), ids: map[parley.Salt]saltID{{}: 0}}
}

func (s *salts) use(salt parley.Salt) saltID {
	id, ok := s.ids[salt]
	if !ok {
		if n := len(s.free); n > 0 {
			id, s.free = s.free[n-1], s.free[:n-1]
		} else {
			id = saltID(len(s.list))
			s.list = append(s.list, saltUse{})
		}
		s.ids[salt] = id
		s.list[id] = saltUse{salt: salt}
	}
	return s.again(id)
}

// again counts one more who uses a salt.
func (s *salts) again(id saltID) saltID {
	s.list[id].users++
	return id
}

// done counts one less. The public salt needs no counting.
func (s *salts) done(id saltID) {
	if id == 0 {
		return
	}
	if s.list[id].users--; s.list[id].users == 0 {
		delete(s.ids, s.list[id].salt)
		s.free = append(s.free, id)
	}
}
