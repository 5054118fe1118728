/** What the page can do without until one can type: loaded as one, by later.svelte.ts. */
export { default as AccountDialog } from './AccountDialog.svelte';
export { default as FirstDialog } from './FirstDialog.svelte';
export { default as HelpDialog } from './HelpDialog.svelte';
export { default as InvitationDialog } from './InvitationDialog.svelte';
export { default as KeyDialog } from './KeyDialog.svelte';
export { loadReader } from './Markdown.svelte';
export { default as SettingsDialog } from './SettingsDialog.svelte';
export { default as Sidebar } from './Sidebar.svelte';
export { default as Talk } from './Talk.svelte';
