// Where actors stand: those with edges in columns by their place in the pipeline, the others below them, rank by rank. Pure.

const kNarrowGap = 12;
const kNodeLeast = 126, kGapLeast = 46;  // so close may columns stand before the view scrolls
const kFamilyLeast = 4;  // shard-0, shard-1, ... become one node from so many on
export const kNode = {width: 158, height: 46, gapX: 62, gapY: 22, head: 38, pad: 12};

// Edges that close a circle (gradients going back) do not count; the longest way from a source does.
export function layers(ids, edges) {
  const next = new Map(ids.map((id) => [id, []]));
  const incoming = new Map(ids.map((id) => [id, 0]));
  for (const edge of edges) {
    if (!next.has(edge.fromId) || !next.has(edge.toId) || edge.fromId === edge.toId) continue;
    next.get(edge.fromId).push(edge.toId);
    incoming.set(edge.toId, incoming.get(edge.toId) + 1);
  }
  const order = [], mark = new Map(), back = new Set();
  const visit = (start) => {
    const stack = [[start, 0]];
    mark.set(start, 'open');
    while (stack.length) {
      const top = stack[stack.length - 1];
      const to = next.get(top[0])[top[1]++];
      if (to === undefined) {
        mark.set(top[0], 'done');
        order.push(top[0]);
        stack.pop();
      } else if (mark.get(to) === 'open') {
        back.add(`${top[0]} ${to}`);
      } else if (!mark.has(to)) {
        mark.set(to, 'open');
        stack.push([to, 0]);
      }
    }
  };
  for (const id of ids) if (!incoming.get(id)) visit(id);
  for (const id of ids) if (!mark.has(id)) visit(id);
  const layer = new Map(ids.map((id) => [id, 0]));
  for (const id of order.reverse()) {
    for (const to of next.get(id)) {
      if (!back.has(`${id} ${to}`)) layer.set(to, Math.max(layer.get(to), layer.get(id) + 1));
    }
  }
  return layer;
}

// Nodes of a rank that have no edges; many of one name are one node until they are opened.
export function families(actors, opened) {
  const byStem = new Map();
  for (const actor of actors) {
    const stem = /^(.+?)[-_.]?\d+$/.exec(actor.name)?.[1];
    const key = stem ? `${actor.rank}/${stem}` : actor.id;
    if (!byStem.has(key)) byStem.set(key, []);
    byStem.get(key).push(actor);
  }
  const nodes = [];
  for (const [key, members] of byStem) {
    if (members.length < kFamilyLeast || opened.has(key)) for (const actor of members) nodes.push({id: actor.id, members: [actor]});
    else nodes.push({id: `${key}*`, family: key, members});
  }
  return nodes;
}

// Columns of the usual width where they fit, else closer and narrower ones if that is enough.
function columnsWithin(width, columns) {
  const usual = {nodeWidth: kNode.width, gapX: kNode.gapX};
  if (columns * (kNode.width + kNode.gapX) - kNode.gapX <= width) return usual;
  const gapX = Math.max(kGapLeast, Math.min(kNode.gapX, Math.floor((width - columns * kNode.width) / (columns - 1))));
  const nodeWidth = Math.floor((width - (columns - 1) * gapX) / columns);
  return nodeWidth >= kNodeLeast ? {nodeWidth, gapX} : usual;
}

// -> {width, height, nodeWidth, gapX, isNarrow, groups: [{rank, x, y, width, height}], nodes: [{id, family?, members, x, y}]}
export function layout(ranks, actorsOf, edges, width, opened) {
  const shown = ranks.flatMap((rank) => actorsOf(rank));
  const ids = new Set(shown.map((actor) => actor.id));
  const inside = edges.filter((edge) => ids.has(edge.fromId) || ids.has(edge.toId));
  const connected = new Set(inside.flatMap((edge) => [edge.fromId, edge.toId]).filter((id) => ids.has(id)));
  const layer = layers(shown.map((actor) => actor.id).filter((id) => connected.has(id)), inside);
  const deepest = Math.max(0, ...layer.values());
  const isNarrow = width < 600;  // a phone: two nodes side by side
  const {nodeWidth, gapX} = isNarrow ? {nodeWidth: Math.min(kNode.width, Math.max(120, Math.floor((width - 2 * kNode.pad - 2 - kNarrowGap) / 2))), gapX: kNarrowGap} : columnsWithin(width - 2 * kNode.pad - 2, deepest + 1);
  // All stand in the same columns, so that edges to other ranks find a gap between them.
  const step = nodeWidth + gapX;
  const fits = Math.max(1, Math.floor((width - 2 * kNode.pad + step - nodeWidth) / step));
  const groups = [], nodes = [];
  let top = 0, right = 0;
  for (const rank of ranks) {
    const group = {rank, x: 0, y: top, width: 0, height: 0};
    const place = (node, x, y) => {
      nodes.push({...node, x: kNode.pad + x, y: top + kNode.head + y});
      right = Math.max(right, 2 * kNode.pad + x + nodeWidth);
    };
    const columns = new Map();
    for (const actor of actorsOf(rank)) {
      if (!connected.has(actor.id)) continue;
      const column = layer.get(actor.id);
      if (!columns.has(column)) columns.set(column, []);
      columns.get(column).push({id: actor.id, members: [actor]});
    }
    let bottom = 0;
    if (isNarrow) {  // the pipeline goes down
      for (let column = 0; column <= deepest; ++column) {
        const members = columns.get(column) ?? [];
        members.forEach((node, i) => place(node, (i % fits) * step, bottom + Math.floor(i / fits) * (kNode.height + 30)));
        bottom += Math.ceil(members.length / fits) * (kNode.height + 30);
      }
    } else {
      for (const [column, members] of columns) {
        members.forEach((node, i) => place(node, column * step, i * (kNode.height + kNode.gapY) + (column % 2) * 10));
        bottom = Math.max(bottom, members.length * (kNode.height + kNode.gapY) + 10);
      }
    }
    if (bottom) bottom += 14;
    const others = families(actorsOf(rank).filter((actor) => !connected.has(actor.id)), opened);
    others.forEach((node, i) => place(node, (i % fits) * step, bottom + Math.floor(i / fits) * (kNode.height + 10)));
    bottom += Math.ceil(others.length / fits) * (kNode.height + 10);
    group.height = kNode.head + bottom + 4;
    top += group.height + 14;
    groups.push(group);
  }
  for (const group of groups) group.width = Math.max(right, width - 2);
  return {width: Math.max(right, 1), height: top, groups, nodes, isNarrow, nodeWidth, gapX};
}
