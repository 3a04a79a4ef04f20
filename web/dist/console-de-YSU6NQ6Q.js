import{a as p,c as m,va as o}from"./chunk-E4J4DL5Y.js";m(p(o,null),document.getElementById("app"));
