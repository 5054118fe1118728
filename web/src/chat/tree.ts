/** The branches of a conversation: which versions a message has, and where they lead. */
import type { Node } from '../shared/api';

/** The versions of a message, oldest first: all that answer or follow the same. */
export function versions(nodes: Node[], id: string): string[] {
  const node = nodes.find((n) => n.id === id);
  if (!node) return [id];
  return nodes.filter((n) => n.parent_id === node.parent_id && n.role === node.role).map((n) => n.id);
}

/** The newest message at the end of the branch that goes through one. */
export function newestLeaf(nodes: Node[], id: string): string {
  // Nodes stand in the order in which they were made, so one pass finds all that come after.
  const after = new Set([id]);
  let leaf = id;
  for (const n of nodes) {
    if (n.parent_id !== null && after.has(n.parent_id)) {
      after.add(n.id);
      leaf = n.id;
    }
  }
  return leaf;
}
