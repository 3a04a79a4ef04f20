import{a as p,c as m,sa as o}from"./chunk-OD4DTCTA.js";m(p(o,null),document.getElementById("app"));
