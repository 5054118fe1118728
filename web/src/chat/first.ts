/** The chat's first sight, drawn at build time: nothing is known yet, the window is narrow. */
import './browserless';
import { render } from 'svelte/server';
import App from './App.svelte';

export const html = render(App).body;
