import{a as p,c as m,va as o}from"./chunk-BKJXUC35.js";m(p(o,null),document.getElementById("app"));
